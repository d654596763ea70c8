"""Counts of reads as a monitor has them, made from depths in bytes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sidecar.curves.decaying_counts import STEPS_A_CYCLE
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.read_counts import ReadCounts

STEP_SECONDS = 300.0
MEBIBYTE = 1 << 20


def ids_of(groups: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Return objects of these groups."""
    return np.asarray(groups).astype(np.uint64) << np.uint64(32)


def count(counts: ReadCounts, depths_bytes: Iterable[float], groups: npt.ArrayLike = ()) -> None:
    """Reads at these depths; without ``groups``, one group's after the other's."""
    depths = np.array(list(depths_bytes), dtype=np.float64)
    groups = np.asarray(groups) if np.size(groups) else np.arange(len(depths)) % GROUPS
    counts.histogram.add(depths, 1.0, ids_of(groups))
    counts.histogram.reads.new += len(depths)


def step(counts: ReadCounts, objects: int = 10**18, part: float = 1.0) -> None:
    """A step, or a part of one, is over; so many objects leave next to no margin for chance. Each
    miss fills a mebibyte."""
    counts.growth_margin.step(1.0, objects)
    counts.object_bytes = MEBIBYTE
    counts.step(part * STEP_SECONDS, part / STEPS_A_CYCLE)


def at_depth(depth_bytes: float, reads: int = 160, steps: int = 1) -> ReadCounts:
    """Count a server all of whose reads reach so deep, of each group as many."""
    counts = ReadCounts()
    for _ in range(steps):
        count(counts, [depth_bytes] * reads)
        step(counts)
    return counts
