"""The second goal: bounds on mean access times, which come first where the price is small."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.observation import Observation, PlanningSettings, ServerObservation
from solver_lambda.problem import IntArray, PartitionProblem
from solver_lambda.quiet import is_quiet
from solver_lambda.solver import solve

# By so much may bounds raise the node's weighted mean access time, all together: the second goal
# is worth a part of the first, and not all of it.
MOST_COST_RATIO = 0.1
# And by so much as long as each of them is met by the size in force: a price that wavers around
# the limit does not give and take memory in turn.
KEPT_COST_RATIO = 0.15


class Reserved(NamedTuple):
    """What bounds take.

    Attributes:
        sizes_bytes: by name, of each server whose bound is met.
        unmet: by name, why a bound takes nothing, for people.
    """

    sizes_bytes: dict[str, int]
    unmet: dict[str, str]


def reserve_for_bounds(
    problem: PartitionProblem, observation: Observation, *, deadline_seconds: float
) -> Reserved:
    """The least size with which each bounded server meets its bound.

    What a bound takes comes before the objective, which divides the rest, but it has a price:
    all bounds together raise the best weighted mean access time (the cost of moving included) by
    ``MOST_COST_RATIO`` at most, or ``KEPT_COST_RATIO`` if none is new. Those that take the least go
    first, so that as many as possible are met; one that would go beyond takes nothing. Nor does one
    that no size meets, or whose server is quiet or has no weight: then the objective alone gives
    the server its share.

    ``deadline_seconds`` is on the clock of ``time.perf_counter``; what could not be looked at
    until then takes nothing.
    """
    needed: dict[str, tuple[int, int]] = {}
    unmet: dict[str, str] = {}
    servers = {server.name: server for server in observation.servers}
    for row, name in enumerate(problem.names):
        server = servers[name]
        bound = server.latency_bound_seconds
        if bound is None:
            continue
        if not server.weight:
            unmet[name] = "takes no memory, because its weight is 0"
            continue
        if is_quiet(server, observation):
            unmet[name] = "takes no memory while it has hardly any reads"
            continue
        sizes = problem.bases_bytes[row] + problem.unit_bytes * np.arange(problem.limits[row] + 1)
        met = np.flatnonzero(EffectiveAccessTime.of(server).seconds(sizes) <= bound)
        if len(met):
            needed[name] = (int(met[0]), int(sizes[met[0]]))
        else:
            unmet[name] = _why_not(server, bound)
    left = problem.capacity
    reserved: dict[str, int] = {}
    for name, (units, size_bytes) in sorted(needed.items(), key=lambda item: (item[1][0], item[0])):
        if units <= left:
            left -= units
            reserved[name] = size_bytes
        else:
            unmet[name] = "cannot be met beside the bounds that take less"
    return _affordable(problem, observation, Reserved(reserved, unmet), deadline_seconds)


def _affordable(
    problem: PartitionProblem,
    observation: Observation,
    wanted: Reserved,
    deadline_seconds: float,
) -> Reserved:
    """Those of the bounds, in their order, that keep within ``MOST_COST_RATIO``."""

    def mean_with(sizes_bytes: Mapping[str, int]) -> float:
        return best_mean_seconds(
            with_reserved(problem, sizes_bytes),
            observation.planning,
            deadline_seconds=deadline_seconds,
        )

    accepted: dict[str, int] = {}
    unmet = dict(wanted.unmet)
    # What fits as a whole fits in all its parts, so only a batch that does not is halved.
    batches = [list(wanted.sizes_bytes)] if wanted.sizes_bytes else []
    best = mean_with({}) if batches else 0.0
    met = {server.name for server in observation.servers if _is_met(server)}
    while batches:
        names = batches.pop()
        if time.perf_counter() > deadline_seconds:
            unmet.update(dict.fromkeys(names, "takes no memory: its price was not found in time"))
            continue
        tried = accepted | {name: wanted.sizes_bytes[name] for name in names}
        mean = mean_with(tried)
        most_ratio = KEPT_COST_RATIO if tried.keys() <= met else MOST_COST_RATIO
        if mean <= best * (1 + most_ratio):
            accepted = tried
        elif len(names) > 1:
            middle = len(names) // 2
            batches += [names[middle:], names[:middle]]
        else:
            unmet[names[0]] = _too_dear(mean, best, most_ratio, beside=bool(accepted))
    return Reserved(accepted, unmet)


def best_mean_seconds(
    problem: PartitionProblem, planning: PlanningSettings, *, deadline_seconds: float
) -> float:
    """The least weighted mean access time, where the split itself is of no interest."""
    # As good a start for the certificate as Dirichlet search, and it takes no time.
    planning = dataclasses.replace(planning, method="hill_climbing")
    return -solve(problem, planning, deadline_seconds=deadline_seconds).value


def _is_met(server: ServerObservation) -> bool:
    """By the size in force; without ``maxmemory`` it counts as new."""
    bound, size = server.latency_bound_seconds, server.maxmemory_bytes
    if bound is None or not size:
        return False
    return float(EffectiveAccessTime.of(server).seconds(size)) <= bound


def _too_dear(mean_seconds: float, best_seconds: float, most_ratio: float, *, beside: bool) -> str:
    others = "with the bounds that take less it" if beside else "it"
    cost = f" {mean_seconds / best_seconds - 1:.1%}," if best_seconds else ""
    return (
        f"takes no memory: {others} would cost the node's mean access time{cost} "
        f"more than {most_ratio:.0%}"
    )


def _why_not(server: ServerObservation, bound_seconds: float) -> str:
    if bound_seconds < server.cache_latency_seconds:
        return "cannot be met: it is below the time of its cache itself"
    return "cannot be met by any size that it may have now"


def with_reserved(problem: PartitionProblem, sizes_bytes: Mapping[str, int]) -> PartitionProblem:
    """The problem that is left above the reserved sizes, or above as much as is in reach.

    Where it is too little for all, those that take the least go first.
    """
    wanted = {
        row: min(
            int(problem.limits[row]),
            max(0, -(-(sizes_bytes[name] - problem.bases_bytes[row]) // problem.unit_bytes)),
        )
        for row, name in enumerate(problem.names)
        if name in sizes_bytes
    }
    least: IntArray = np.zeros(len(problem.names), dtype=np.int64)
    left = problem.capacity
    for row, units in sorted(wanted.items(), key=lambda item: (item[1], item[0])):
        least[row] = min(units, left)
        left -= int(least[row])
    return problem.with_least(least) if wanted else problem
