"""Keys alone, as cache2k's benchmarks have them: int32, big-endian."""

from __future__ import annotations

from array import array

from sidecar.traces.beginning import NO, YES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sidecar.traces.beginning import Beginning

LACKS = ("size", "time")
RECORD_BYTES = 4
TAKEN_BY = "spreds_mrc_take_cache2k"
_MOST_WORDS = 3000
_MOST_WORDS_OF_A_RECORD = 10
_LEAST_RECORDS = 32


def detect(beginning: Beginning) -> int:
    """Where no column of a longer record shows: one that only rises, as a time does, or stays, as
    the upper half of a number does."""
    if beginning.lines:
        return NO
    words = array("i", beginning.first[: min(len(beginning.first) // 4, _MOST_WORDS) * 4])
    for _ in range(2):  # by either order of bytes
        words.byteswap()
        if not _rises(words):
            for step in range(2, _MOST_WORDS_OF_A_RECORD + 1):
                if any(_rises(words[first::step]) for first in range(step)):
                    return NO
    return YES


def _rises(column: array[int]) -> bool:
    return len(column) >= _LEAST_RECORDS and sorted(column) == column.tolist()


def columns(records: bytes) -> tuple[Any, Any, Any]:
    """Times, keys as they stand in the file, and sizes, as arrays."""
    import numpy as np

    keys = np.frombuffer(records, ">i4")
    return np.zeros(len(keys)), keys, np.ones(len(keys), dtype=np.uint32)
