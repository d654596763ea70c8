"""Reserves the memory that bounds take: the second goal comes first where its price is small."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.planning.bounds import Bound, bounds_of
from solver_lambda.planning.quiet_servers import is_quiet
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem
from solver_lambda.solvers.solver import Solution, solve

# All bounds together may raise the node's weighted mean access time by this ratio: the second goal
# is worth a part of the first, and not all of it.
MOST_COST_RATIO = 0.1
# And by this ratio while the size in force meets each of them: so a price that wavers around the
# limit does not give and take memory in turn.
KEPT_COST_RATIO = 0.15


class Reserved(NamedTuple):
    """Says what bounds take.

    Attributes:
        sizes_bytes: by name, of each server that has a bound which is met by them.
        unmet: why a bound takes nothing, for people, by server and the bound's code.
    """

    sizes_bytes: dict[str, int]
    unmet: dict[tuple[str, str], str]


class _Wish(NamedTuple):
    """Holds the least size by which a bound is met, and its units above the server's least."""

    bound: Bound
    units: int
    size_bytes: int

    @property
    def key(self) -> tuple[str, str]:
        return self.bound.server, self.bound.code


def reserve_for_bounds(
    problem: PartitionProblem, observation: Observation, *, deadline_seconds: float
) -> Reserved:
    """Return the least size with which each server meets its bounds.

    What a bound takes comes before the objective, which divides the rest, but it has a price:
    all bounds together raise the best weighted mean access time (the cost of moving included) by
    ``MOST_COST_RATIO`` at most, or ``KEPT_COST_RATIO`` if none is new. Those that take the least go
    first, so that as many as possible are met; one that would go beyond takes nothing. Nor does one
    that no size meets, or whose server is quiet or has no weight: then the objective alone gives
    the server its share.

    ``deadline_seconds`` is on the clock of ``time.perf_counter``; what could not be looked at
    until then takes nothing.
    """
    wishes: list[_Wish] = []
    unmet: dict[tuple[str, str], str] = {}
    servers = {server.name: server for server in observation.servers}
    for row, name in enumerate(problem.names):
        for bound in bounds_of(servers[name]):
            steps = np.arange(problem.limits[row] + 1)
            sizes = problem.bases_bytes[row] + problem.unit_bytes * steps
            why = _takes_nothing(servers[name], observation)
            if why is None:
                met = np.flatnonzero(bound.amounts(sizes) <= bound.most)
                if len(met):
                    wishes.append(_Wish(bound, int(met[0]), int(sizes[met[0]])))
                    continue
                why = f": {bound.never}" if bound.never else " by any size that it may have now"
                why = f"cannot be met{why}"
            unmet[name, bound.code] = why
    taken = dict.fromkeys(problem.names, 0)
    fitting: list[_Wish] = []
    for wish in sorted(wishes, key=lambda wish: (wish.units, wish.key)):
        name = wish.bound.server
        more = max(0, wish.units - taken[name])
        if sum(taken.values()) + more <= problem.capacity:
            taken[name] += more
            fitting.append(wish)
        else:
            unmet[wish.key] = "cannot be met beside the bounds that take less"
    return _affordable(problem, observation, fitting, unmet, deadline_seconds)


def _takes_nothing(server: ServerObservation, observation: Observation) -> str | None:
    if not server.weight:
        return "takes no memory, because its weight is 0"
    if is_quiet(server, observation):
        return "takes no memory while it has hardly any reads"
    return None


def _affordable(
    problem: PartitionProblem,
    observation: Observation,
    wishes: list[_Wish],
    unmet: dict[tuple[str, str], str],
    deadline_seconds: float,
) -> Reserved:
    """Return those of the wishes, in their order, that keep within ``MOST_COST_RATIO``."""

    def mean_with(taken: list[_Wish]) -> float:
        left = with_reserved(problem, _sizes_bytes(taken))
        return -best_split(left, observation.planning, deadline_seconds=deadline_seconds).value

    accepted: list[_Wish] = []
    # If a batch fits as a whole, all its parts fit; so only one that does not fit is halved.
    batches = [wishes] if wishes else []
    best = mean_with([]) if batches else 0.0
    in_force = observation.in_force_bytes
    while batches:
        batch = batches.pop()
        if time.perf_counter() > deadline_seconds:
            late = "takes no memory: its price was not found in time"
            unmet.update({wish.key: late for wish in batch})
            continue
        tried = accepted + batch
        mean = mean_with(tried)
        is_kept = all(wish.bound.is_met(in_force[wish.bound.server]) for wish in tried)
        most_ratio = KEPT_COST_RATIO if is_kept else MOST_COST_RATIO
        if mean <= best * (1 + most_ratio):
            accepted = tried
        elif len(batch) > 1:
            middle = len(batch) // 2
            batches += [batch[middle:], batch[:middle]]
        else:
            unmet[batch[0].key] = _too_dear(mean, best, most_ratio, beside=bool(accepted))
    return Reserved(_sizes_bytes(accepted), unmet)


def _sizes_bytes(wishes: list[_Wish]) -> dict[str, int]:
    """Return the sizes that meet all of them."""
    sizes: dict[str, int] = {}
    for wish in wishes:
        name = wish.bound.server
        sizes[name] = max(sizes.get(name, 0), wish.size_bytes)
    return sizes


def best_split(
    problem: PartitionProblem,
    planning: PlanningSettings,
    *,
    deadline_seconds: float,
    enough_gap_ratio: float = 0.0,
) -> Solution:
    """Return the split of the least weighted mean access time, where nobody is to get it."""
    # As good a start for the certificate as Dirichlet search, and it takes no time.
    planning = dataclasses.replace(planning, method="hill_climbing")
    return solve(
        problem, planning, deadline_seconds=deadline_seconds, enough_gap_ratio=enough_gap_ratio
    )


def _too_dear(mean_seconds: float, best_seconds: float, most_ratio: float, *, beside: bool) -> str:
    others = "with the bounds that take less it" if beside else "it"
    cost = f" {mean_seconds / best_seconds - 1:.1%}," if best_seconds else ""
    return (
        f"takes no memory: {others} would cost the node's mean access time{cost} "
        f"more than {most_ratio:.0%}"
    )


def with_reserved(problem: PartitionProblem, sizes_bytes: Mapping[str, int]) -> PartitionProblem:
    """Return the problem that is left above the reserved sizes, or above as much as is in reach.

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
