"""Makes the miss-ratio curve of a trace under ``allkeys-lfu``, by caches of several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.references import Accesses
from sidecar.mrc.sampled_requests import sampled_requests
from sidecar.mrc.seen_times import SeenTimes
from sidecar.mrc.trace_curve import TraceCurve
from sidecar.samples.wire_format import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions


# By which LFU's counters fall.
_MINUTE_SECONDS, _MINUTE_WORDS = 60, "the minute by which LFU forgets"


def simulate_lfu_of_file(
    path: TracePath,
    format: str | None,  # noqa: A002
    options: ReadOptions,
    lru: TraceCurve,
    sizes: Sequence[int],
    *,
    rate: float,
    salt: int,
) -> TraceCurve:
    """Return the curve of Redis' LFU with its usual settings, at ``sizes``. Without a compiled
    library it takes minutes for each million of sampled requests.

    Args:
        path, format, options: of the file, which is read again.
        lru: its curve under LRU, by the same sample.
        sizes: of the caches, ascending, in bytes or objects.
        rate, salt: as of ``trace_curve.estimate_curve``.

    Raises:
        TraceError: the file cannot be read, or its times cannot be of this unit.
    """
    simulation = MiniatureSimulation(np.array(sizes, np.float64), EvictionSettings())
    simulation.set_rate(rate)
    seen = SeenTimes(path)
    for part in sampled_requests(path, format, options, rate=rate, salt=salt, seen=seen):
        minutes = (part.times_seconds // _MINUTE_SECONDS).astype(np.int64)
        # A cache has one clock for all that it takes at once.
        ends = [*(np.flatnonzero(np.diff(minutes)) + 1).tolist(), len(minutes)]
        for start, end in zip([0, *ends], ends, strict=False):
            if start < end:
                accesses = _reads(part.keys[start:end], part.weights[start:end])
                simulation.access(accesses, 1, int(minutes[start]) * _MINUTE_SECONDS, rate)
    if seen.span_seconds:  # otherwise it has no times
        seen.must_fit(_MINUTE_SECONDS, _MINUTE_WORDS, is_unit_given=options.unit_is_given)
    misses = simulation.misses.new.sum(axis=0) / max(1, lru.requests)
    ratios = np.minimum.accumulate(np.clip(misses, 0.0, 1.0)).tolist()
    counts = (lru.requests, lru.sampled, lru.live_objects, lru.compulsory_miss_ratio)
    curve = TraceCurve(sizes, ratios, *counts)
    curve.take_words(lru, options, seen)
    return curve


def _reads(keys: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64]) -> Accesses:
    """Return reads of objects that are put into every cache that misses them."""
    count = len(keys)
    nothing = np.zeros(count, np.uint8)
    return Accesses(
        keys,
        np.full(count, int(Operation.READ_HIT), np.uint8),
        weights,
        nothing,
        nothing.astype(np.bool_),
    )
