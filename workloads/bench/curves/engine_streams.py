"""Requests, and the samples that a look-aside cache of half the working set makes of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.samples.wire_format import DEFAULT_MODULUS, Operation
from sidecar.traces.trace_reader import load_trace
from workloads.arguments import TWITTER, trace_file
from workloads.load import key_sizes, zipf_keys
from workloads.sample_batches import SampledServer, number_hashes

_UPDATED, _DELETED, _WITH_TTL = 0.05, 0.01, 0.3
_TTL_MS = 3_600_000


@dataclass(frozen=True, eq=False)
class Requests:
    """Reads in order: ``keys`` are numbers below ``len(sizes_bytes)``, shape (n,)."""

    name: str
    keys: npt.NDArray[np.int64]
    sizes_bytes: npt.NDArray[np.uint32]


def zipf_requests(key_count: int, count: int) -> Requests:
    """Zipf 0.99, sizes about 270 bytes."""
    random = np.random.default_rng(1)
    keys = zipf_keys(key_count, 0.99, count, random).astype(np.int64)
    return Requests("Zipf 0.99", keys, key_sizes(key_count, 270, random))


def twitter_requests(traces: Path) -> Requests:
    """A million requests to Twitter's cluster 52. Raises OSError, TraceError."""
    trace = load_trace(trace_file(traces, TWITTER))
    _, first, keys = np.unique(trace.keys, return_index=True, return_inverse=True)
    return Requests("Twitter", keys, trace.sizes_bytes[first])


def sampled_stream(requests: Requests, objects: int, samples: int) -> list[bytes]:
    """Make at least ``samples`` samples of a look-aside cache, of ``objects`` keys; the requests
    are repeated as often as it takes.

    The cache holds half of the working set and evicts by LRU. Of the requests, 5 % are updates
    and 1 % deletions; of the keys, 30 % have a TTL, of an hour, which none of them lives to see.
    """
    hashes = number_hashes(np.arange(len(requests.sizes_bytes)), 0)
    places = hashes & np.uint64(DEFAULT_MODULUS - 1)
    threshold = int(np.sort(places[np.unique(requests.keys)])[objects])
    sampled = requests.keys[places[requests.keys] < threshold]
    repeated = np.tile(sampled, -(-samples // len(sampled)))[:samples]
    keys, operations = _look_aside(repeated, requests.sizes_bytes)
    has_size = (operations == Operation.READ_HIT) | (operations == Operation.WRITE)
    return list(
        SampledServer(threshold=threshold).batches(
            hashes[keys],
            operations,
            np.where(has_size, requests.sizes_bytes[keys], 0),
            ttl=keys % 10 < 10 * _WITH_TTL,
            ttls_ms=_left_ms(keys, operations),
            times_us=np.arange(len(keys)) * 1000,
        )
    )


def _left_ms(
    keys: npt.NDArray[np.int64], operations: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return what is left of each object's TTL, a millisecond less from one record to the next; −1
    where a sampler does not tell it. Shapes (n,)."""
    written: dict[int, int] = {}
    left = np.full(len(keys), -1)
    for place, (key, operation) in enumerate(zip(keys.tolist(), operations.tolist(), strict=True)):
        if operation == Operation.WRITE:
            written[key] = place
        if operation in (Operation.WRITE, Operation.READ_HIT):
            left[place] = _TTL_MS - (place - written[key])
    return left


def _look_aside(
    keys: npt.NDArray[np.int64], sizes_bytes: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Keys and operations of all that happens."""
    sizes = sizes_bytes.tolist()
    room = int(sizes_bytes[np.unique(keys)].sum()) // 2
    cache: OrderedDict[int, None] = OrderedDict()
    happened: list[tuple[int, int]] = []
    draws = np.random.default_rng(2).random(len(keys)).tolist()
    for key, draw in zip(keys.tolist(), draws, strict=True):
        if draw < _DELETED:
            if key in cache:
                del cache[key]
                room += sizes[key]
                happened.append((key, Operation.DELETE))
            continue
        if draw < _DELETED + _UPDATED:
            happened.append((key, Operation.WRITE))
        elif key in cache:
            happened.append((key, Operation.READ_HIT))
        else:
            happened += [(key, Operation.READ_MISS), (key, Operation.WRITE)]
        if key not in cache:
            room -= sizes[key]
        cache[key] = None
        cache.move_to_end(key)
        while room < 0:
            oldest, _ = cache.popitem(last=False)
            room += sizes[oldest]
            happened.append((oldest, Operation.EVICTION))
    keys, operations = np.array(happened, dtype=np.int64).T
    return keys, operations
