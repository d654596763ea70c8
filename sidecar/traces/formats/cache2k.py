"""Reads keys alone, as cache2k's benchmarks have them: int32, big-endian."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import permutations

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
# So many values of halves are enough to tell; they are as frequent in both by so much.
_LEAST_HALVES, _SHARED_HALVES = 16, 0.6


def detect(beginning: Beginning) -> int:
    """Detect the format where no column of a longer record shows. Such a column only rises, as a
    time does, or stays, as the upper half of a number does. Or it says what the next one is, as one
    half of a larger key does of the other. Two shorter numbers in each may not show either."""
    if beginning.lines:
        return NO
    words = array("i", beginning.first[: min(len(beginning.first) // 4, _MOST_WORDS) * 4])
    for _ in range(2):  # by either order of bytes
        words.byteswap()
        if not _rises(words):
            for step in range(2, _MOST_WORDS_OF_A_RECORD + 1):
                columns = [words[first::step] for first in range(step)]
                if any(map(_rises, columns)):
                    return NO
                if any(_tells(*pair) for pair in permutations(columns[:2])):
                    return NO
    return NO if _is_of_two(words) else YES


def _tells(column: array[int], other: array[int]) -> bool:
    """Whether each value that comes again has the same one beside it."""
    beside: dict[int, int] = {}
    if any(beside.setdefault(one, its) != its for one, its in zip(column, other, strict=False)):
        return False
    return len(column) - len(beside) >= _LEAST_RECORDS


def _is_of_two(words: array[int]) -> bool:
    """Whether the upper halves have the values of the lower ones, as often."""
    upper = Counter(word >> 16 & 0xFFFF for word in words)
    lower = Counter(word & 0xFFFF for word in words)
    shared = sum((upper & lower).values())
    return len(lower) >= _LEAST_HALVES and shared > _SHARED_HALVES * len(words)


def _rises(column: array[int]) -> bool:
    return len(column) >= _LEAST_RECORDS and sorted(column) == column.tolist()


def columns(records: bytes) -> tuple[Any, Any, Any]:
    """Return times, keys as they stand in the file, and sizes, as arrays."""
    import numpy as np

    keys = np.frombuffer(records, ">i4")
    return np.zeros(len(keys)), keys, np.ones(len(keys), dtype=np.uint32)
