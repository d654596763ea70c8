"""Tells how much of a plan's gain may be chance: groups of objects judge plans that others made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sidecar.curves.decaying_counts import HalfLife
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.virtual_plans import VirtualPlanner, cost_of


def chance_ratio(
    planner: VirtualPlanner,
    counts: Mapping[str, ReadCounts],
    half_life: HalfLife,
    sizes_bytes: Mapping[str, int],
    errors: float,
) -> float:
    """Return what the best plan seems to gain over sizes, of all cost, beyond what is proven.

    The best of many divisions by a few sampled objects is one that those objects flatter. So each
    group of them judges a plan that was made by all others (leave-one-out cross-validation); the
    gain is proven as far as the mean of these exceeds so many of its standard ``errors``.
    """
    groups = planner.miss_costs(counts, half_life, by_group=True)
    whole = groups.mean(axis=0)
    now = planner.units(sizes_bytes)
    total = cost_of(now, whole) + planner.hit_costs(counts, half_life)
    if total <= 0:
        return 0.0
    seems = cost_of(now, whole) - cost_of(planner.plan(whole), whole)
    gains = [
        cost_of(now, own) - cost_of(planner.plan((whole * GROUPS - own) / (GROUPS - 1)), own)
        for own in groups
    ]
    proven = float(np.mean(gains) - errors * np.std(gains, ddof=1) / np.sqrt(GROUPS))
    return max(0.0, seems - proven) / total
