"""Keeps what a monitor has learnt of its server's keys, as arrays that outlive the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.curves.decaying_counts import HALF_LIVES_CYCLES, Remembered
from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import Operation
from sidecar.servers.connection.server_reading import ServerReading

Array = npt.NDArray[Any]
Learnt = Mapping[str, Array]

# Nothing is known of keys that were read meanwhile: after a longer gap the curve tells nothing.
MOST_GAP_CYCLES = 1.0


def learnt_of(monitor: ServerMonitor) -> dict[str, Array] | None:
    """Return the arrays of one monitor; ``None`` where too little is known. It is also ``None``
    where keys that are never evicted or a simulated policy would have to be known.

    Objects in the order of their recency with what they weigh, counts by each half-life, and
    what was learnt of memory, latency and error. When keys expire is not in it: the sampler tells
    that of each that does.
    """
    shards, last = monitor.shards, monitor.last_batch
    if last is None or shards.threshold is None or monitor.previous is None:
        return None
    if shards.volatile or shards.simulation is not None or monitor.warm_up.is_on:
        return None
    keys, weights = shards.stack.listed()
    counts, calibration = monitor.counts, monitor.calibration
    return {
        "population": np.array(
            [*last.population, _is_replica(monitor.previous), shards.threshold], np.uint64
        ),
        "keys": keys,
        "weights": weights,
        **{name: _sums(part) for name, part in _counted(monitor).items()},
        "waits": monitor.latency.fills.waits.copy(),
        "known": np.array(
            [
                *(last.last_time_us / 1e6, calibration.overhead_bytes, calibration.fixed_bytes),
                *(monitor.samples_taken, monitor.latency.sure_seconds or 0.0),
                *(*monitor.anchor.sums, *counts.window_error.sums),
            ]
        ),
    }


def learnt_threshold(learnt: Learnt, modulus: int) -> int:
    """Return T of its objects; 0 where that cannot be, or where P is another one now."""
    population = learnt.get("population", np.zeros(0))
    if population.shape != (5,) or int(population[2]) != modulus:
        return 0
    threshold = int(population[-1])
    return threshold if 1 <= threshold <= modulus else 0


def restore(monitor: ServerMonitor, learnt: Learnt, batch: Batch) -> bool:
    """Give it to a monitor that has taken no batch yet, and whose first one is this. Returns
    whether it fits. It does not where another process or other keys are sampled, in another role,
    or after ``MOST_GAP_CYCLES``. Nor does it where it is not what ``learnt_of`` makes. Then nothing
    has changed."""
    if not _is_sound(monitor, learnt):
        return False
    *population, was_replica, threshold = learnt["population"].tolist()
    at_seconds, overhead_bytes, fixed_bytes, samples, sure_seconds, *sums = learnt["known"].tolist()
    gap_cycles = (batch.first_time_us / 1e6 - at_seconds) / monitor.cycle_seconds
    if tuple(population) != batch.population or not 0 <= gap_cycles <= MOST_GAP_CYCLES:
        return False
    if monitor.previous is None or was_replica != _is_replica(monitor.previous):
        return False  # what a replica serves tells nothing of what a primary does
    shards = monitor.shards
    shards.sample(batch, threshold)
    keys, weights = learnt["keys"], learnt["weights"]
    shards.stack.access(keys, np.full(len(keys), Operation.WRITE, np.uint8), weights, 1)
    fade = 0.5 ** (gap_cycles / HALF_LIVES_CYCLES)
    for name, part in _counted(monitor).items():
        part.faded[...] = learnt[name] * fade.reshape(-1, *[1] * part.new.ndim)
    monitor.latency.fills.waits[...] = learnt["waits"]
    monitor.latency.sure_seconds = sure_seconds if sure_seconds > 0 else None
    monitor.calibration.overhead_bytes = round(overhead_bytes)
    monitor.calibration.fixed_bytes = round(fixed_bytes)
    monitor.samples_taken = round(samples)
    monitor.anchor.sums, monitor.counts.window_error.sums = tuple(sums[:3]), tuple(sums[3:])
    return True


def _is_replica(reading: ServerReading) -> bool:
    return reading.role == "slave"


def _counted(monitor: ServerMonitor) -> dict[str, Remembered]:
    histogram = monitor.counts.histogram
    return {
        "counts": histogram.counts,
        "groups": histogram.groups,
        "reads": histogram.reads,
        "seconds": monitor.counts.seconds,
    }


def _sums(part: Remembered) -> Array:
    return np.asarray(part.faded + part.new)


def _is_sound(monitor: ServerMonitor, learnt: Learnt) -> bool:
    """Whether each array has its form, and figures that can be."""
    waits, most = monitor.latency.fills.waits, monitor.shards.live_objects
    forms = {name: part.faded.shape for name, part in _counted(monitor).items()}
    forms |= {"waits": waits.shape, "known": (10,)}
    if set(learnt) != {"population", "keys", "weights", *forms}:
        return False
    keys, weights = learnt["keys"], learnt["weights"]
    return (
        all(
            learnt[name].shape == form
            and learnt[name].dtype == np.float64
            and bool(np.isfinite(learnt[name]).all())
            for name, form in forms.items()
        )
        and all(bool((learnt[name] >= 0).all()) for name in forms if name != "known")
        and learnt["known"][-1] > 0
        and learnt["population"].shape == (5,)
        and learnt["population"].dtype == keys.dtype == np.uint64
        and weights.dtype == np.int64
        and keys.shape == weights.shape == (len(keys),)
        and (most is None or len(keys) <= most)
        and len(np.unique(keys)) == len(keys)
        and bool(((weights > 0) & (weights < 1 << 44)).all())
    )
