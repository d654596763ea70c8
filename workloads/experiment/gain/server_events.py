"""What happened to a simulated server's keys, as arrays, in the order in which it happened."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.samples.wire_format import Operation
from workloads.experiment.gain.simulated_server import IntArray, Served

# Of one read, in this order: keys that expired, the read, its fill, and what is evicted for it.
_EXPIRY, _READ, _FILL, _EVICTION = range(4)
_UNKNOWN_MS = -1


class ServerEvents(NamedTuple):
    """All arrays of shape (n,): ``sizes_bytes`` 0 and ``ttls_ms`` -1 where a sampler tells none."""

    keys: IntArray
    operations: npt.NDArray[np.uint8]
    sizes_bytes: npt.NDArray[np.uint32]
    ttls_ms: IntArray
    times_seconds: npt.NDArray[np.float64]


def server_events(
    served: Served, sizes_bytes: npt.NDArray[np.uint32], ttl_seconds: float
) -> ServerEvents:
    """As a sampler of rate 1 would tell them; sizes by key, the TTL that fills set."""
    count = len(served.keys)
    missed = np.flatnonzero(~served.hit)
    removed_places = np.array([place for place, _, _ in served.removed], dtype=np.int64)
    removed_keys = np.array([key for _, key, _ in served.removed], dtype=np.int64)
    removed_by = np.array([operation for _, _, operation in served.removed], dtype=np.uint8)
    removed_steps = np.where(removed_by == Operation.EXPIRY, _EXPIRY, _EVICTION)
    places = np.concatenate((np.arange(count), missed, removed_places))
    steps = np.concatenate((np.full(count, _READ), np.full(len(missed), _FILL), removed_steps))
    order = np.lexsort((steps, places))
    keys = np.concatenate((served.keys, served.keys[missed], removed_keys))
    reads = np.where(served.hit, Operation.READ_HIT, Operation.READ_MISS).astype(np.uint8)
    fills = np.full(len(missed), Operation.WRITE, np.uint8)
    operations = np.concatenate((reads, fills, removed_by))
    is_there = (operations == Operation.READ_HIT) | (operations == Operation.WRITE)
    lives_ms = np.where(np.isfinite(served.lives_seconds), served.lives_seconds * 1000, _UNKNOWN_MS)
    fill_ms = np.full(len(missed), ttl_seconds * 1000 if ttl_seconds else _UNKNOWN_MS)
    ttls_ms = np.concatenate((lives_ms, fill_ms, np.full(len(removed_keys), _UNKNOWN_MS)))
    span = served.end_seconds - served.begin_seconds
    times = served.begin_seconds + span * (np.maximum(places, 0) + 0.5) / max(1, count)
    return ServerEvents(
        keys[order],
        operations[order],
        np.where(is_there, sizes_bytes[keys], 0).astype(np.uint32)[order],
        ttls_ms.astype(np.int64)[order],
        times[order],
    )
