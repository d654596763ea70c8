"""Mean absolute error of the engine's curves against exact LRU, salt by salt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.curves.miss_ratio_histogram import EDGES_BYTES, MissRatioHistogram
from sidecar.curves.shards import Shards
from sidecar.mrc.trace_curve import estimate_curve
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS, Operation
from sidecar.traces.chunk import TraceChunk
from workloads.bench.curves.engine_streams import Requests
from workloads.sample_batches import SampledServer, number_hashes

_GRID_POINTS = 100
# All objects weigh the same, and so much that the smallest cache is a bucket of its own.
_OBJECT_BYTES = 256
_PART = 1 << 20

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """Mean absolute errors of one trace and way of sampling, one for each salt.

    Attributes:
        linear: over sizes at equal steps up to all objects.
        log: over sizes at equal ratios, from 100 objects.
    """

    trace: str
    sample: str
    linear: list[float]
    log: list[float]


def errors_of_salts(requests: Requests, live_objects: int, salts: int) -> Iterator[Errors]:
    """At the fixed rate 0.01, then with ``live_objects`` of all."""
    count = len(requests.keys)
    exact = estimate_curve(
        [
            TraceChunk(
                np.zeros(count), requests.keys.astype(np.uint64), np.ones(count, dtype=np.uint32)
            )
        ]
    )
    objects = exact.live_objects
    grids = (
        np.arange(1, _GRID_POINTS + 1) * objects // _GRID_POINTS,
        np.geomspace(100, objects, _GRID_POINTS).astype(np.int64),
    )
    truths = [np.array(exact.miss_ratios_at(grid.tolist())) for grid in grids]
    for name, threshold, limit in (
        ("R = 0.01", DEFAULT_MODULUS // 100, None),
        (f"{live_objects:,} objects", DEFAULT_MODULUS, live_objects),
    ):
        errors: tuple[list[float], list[float]] = ([], [])
        for salt in range(1, salts + 1):
            ratios = _miss_ratios(requests, Shards(limit), SampledServer(1, threshold, salt=salt))
            for grid, truth, into in zip(grids, truths, errors, strict=True):
                estimate = np.interp(grid * _OBJECT_BYTES, EDGES_BYTES, ratios)
                into.append(float(np.abs(estimate - truth).mean()))
        yield Errors(requests.name, name, *errors)


def _miss_ratios(requests: Requests, shards: Shards, server: SampledServer) -> FloatArray:
    """Of a server that holds nothing: each read misses and is filled."""
    histogram = MissRatioHistogram()
    hashes = number_hashes(np.arange(len(requests.sizes_bytes)), server.salt)
    for start in range(0, len(requests.keys), _PART):
        keys = requests.keys[start : start + _PART]
        for message in server.batches(
            np.repeat(hashes[keys], 2),
            np.tile([Operation.READ_MISS, Operation.WRITE], len(keys)),
            np.tile([0, _OBJECT_BYTES], len(keys)),
        ):
            batch = decode_batch(message)
            taken = shards.take(batch)
            histogram.add(taken.distances_bytes, 1 / taken.rate, taken.ids)
            histogram.reads.new[...] = batch.seen_reads
    return histogram.miss_ratios()
