"""What a look found, in the form in which a sampler in the server would send it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.look.followed_keys import NEVER, FollowedKey
from sidecar.samples.batch import record_type
from sidecar.samples.wire_format import (
    FLAG_SIZE_ALLOCATED,
    FLAG_SIZE_KNOWN,
    FLAG_TTL,
    FLAG_TTL_KNOWN,
    Operation,
)

_MOST_U4 = 2**32 - 1
_RECORD = record_type()


class LookRecord(NamedTuple):
    """What happened to a key, in which second by the server's clock; ``tie`` orders equal ones."""

    second: int
    tie: float
    operation: Operation
    key: FollowedKey


def record_table(records: Sequence[LookRecord], now_seconds: float) -> npt.NDArray[Any]:
    """In their order, shape (n,), with TTLs as they are left now (Unix time)."""
    table = np.zeros(len(records), _RECORD)
    for place, record in enumerate(records):
        key = record.key
        left_ms = min(_MOST_U4, max(0, key.expires_at_seconds - now_seconds) * 1e3)
        flags = FLAG_SIZE_KNOWN | FLAG_SIZE_ALLOCATED if key.size_bytes else 0
        if key.expires_at_seconds < NEVER:
            flags |= FLAG_TTL | FLAG_TTL_KNOWN
        table[place] = (
            *(key.hash, min(key.size_bytes, _MOST_U4), key.database & 0xFFFF),
            *(record.operation, flags, left_ms if flags & FLAG_TTL else 0, 0),
        )
    return table
