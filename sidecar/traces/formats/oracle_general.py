"""Reads libCacheSim's records of 24 bytes, little-endian: u32 time, u64 key, u32 size, i64 position
of the key's next request."""

from __future__ import annotations

import struct

from sidecar.traces.beginning import NO, YES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sidecar.traces.beginning import Beginning

RECORD_BYTES = 24
TAKEN_BY = "spreds_mrc_take_oracle_general"
_MOST_RECORDS = 2000
_NEVER = (-1, 0, (1 << 63) - 1)


def detect(beginning: Beginning) -> int:
    """Detect the format by the key at the position of the next request, which must be the same. At
    least one such position must be near enough to see that, and times never go back."""
    count = min(len(beginning.first) // RECORD_BYTES, _MOST_RECORDS)
    if beginning.lines or not count:
        return NO
    records = list(struct.iter_unpack("<IQIq", beginning.first[: count * RECORD_BYTES]))
    keys = [key for _, key, _, _ in records]
    times = [time for time, _, _, _ in records]
    if times != sorted(times):
        return NO
    given = [place for place in range(count) if records[place][3] not in _NEVER]
    seen = 0
    for place in given:
        following = records[place][3]
        # Some count from 0, some from 1.
        right = keys[place] in keys[max(following - 1, place + 1) : following + 2]
        seen += right
        if following <= place or (following < count - 1 and not right):
            return NO
    return YES if seen or not given else NO


def record_type() -> Any:
    """Return a record's type in numpy."""
    import numpy as np

    return np.dtype([("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next_request", "<i8")])


def columns(records: bytes) -> tuple[Any, Any, Any]:
    """Return times, keys and sizes, as arrays."""
    import numpy as np

    found = np.frombuffer(records, record_type())
    return found["time"].astype(np.float64), found["key"], found["size"]
