"""Says what other budgets would bring: one curve of the whole node over its memory."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import WhatIf
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.problem_grid import build_problem, shares
from solver_lambda.planning.reservations import best_split, reserve_for_bounds, with_reserved
from solver_lambda.planning.size_ranges import (
    InfeasibleError,
    SizeRange,
    least_bytes,
    size_ranges,
)

# Parts of the budget, if the observation asks for none: older sidecars read these, and no more.
OTHER_BUDGET_RATIOS = (0.80, 1.10, 1.25, 1.50)
# No size depends on what another budget would bring, and an exact answer would take most of the
# plan's time. So it is found less exactly, with this gap, on a coarser grid: in at least so many
# units, if the observation's is finer.
MORE_MEMORY_UNITS = 16_384
MORE_MEMORY_GAP_RATIO = 0.0005
# Halvings of the distance between two budgets asked for: a 32nd of a quarter is below 1 %.
_HALVINGS = 5
# Budgets that are so close are one.
_CLOSE = 0.01


class _Division(NamedTuple):
    """Holds what sizes bring by the curves.

    Attributes:
        seconds: weighted mean access time.
        gap_ratio: as ``Solution`` has it.
    """

    seconds: float
    misses_per_second: float
    gap_ratio: float = 0.0


_IsEnough = Callable[[_Division], bool]


def what_if(
    observation: Observation, planned: Mapping[str, int], *, deadline_seconds: float
) -> tuple[WhatIf, ...]:
    """Return what less and more memory brings, once all moves are made and have paid; by rising
    budgets.

    Steps, dwell times and the cost of moving are left out, because they pass with time; servers
    that are kept for lasting reasons keep their size. ``planned`` are the plan's sizes, 0 for no
    limit: more memory is never worse, even if the search had no time to find out. A smaller budget
    is left out where minima and kept sizes do not fit in it.

    Where the observation asks for budgets, others are added: as fast as the sizes in force, as fast
    as those before SPREDS, and with as few misses as equal sizes of M.

    Each is the mean of a split that exists, and the best one with the whole budget may be better:
    by ``MORE_MEMORY_GAP_RATIO``, and by what a unit of the coarser grid more for each server gains.
    """
    try:
        curve = _BudgetCurve(observation, planned, deadline_seconds)
    except InfeasibleError:
        return ()
    # First this one, and those that are near: there may be no time for all.
    ratios = sorted(observation.budget_ratios, key=lambda ratio: abs(math.log(ratio)))
    for ratio in ratios or OTHER_BUDGET_RATIOS:
        if not ratios or time.perf_counter() < deadline_seconds or ratio == ratios[0]:
            curve.add(round(observation.budget_bytes * ratio))
    for is_enough in _as_good_as(observation) if ratios else ():
        if time.perf_counter() < deadline_seconds:
            curve.add_least(is_enough)
    return curve.told()


def _as_good_as(observation: Observation) -> list[_IsEnough]:
    """Return what a smaller budget is held against."""
    in_force = {server.name: server.maxmemory_bytes for server in observation.servers}
    found: list[_IsEnough] = [_as_fast_as(_division(observation, in_force))]
    installed = {server.name: server.installed_bytes or 0 for server in observation.servers}
    if all(installed.values()):
        found.append(_as_fast_as(_division(observation, installed)))
    equal = _equal_sizes(observation, observation.budget_bytes)
    return [*found, lambda division: division.misses_per_second <= equal.misses_per_second]


def _as_fast_as(other: _Division) -> _IsEnough:
    return lambda division: division.seconds <= other.seconds


class _BudgetCurve:
    """Finds the best division of each budget that was asked for."""

    def __init__(
        self, observation: Observation, planned: Mapping[str, int], deadline_seconds: float
    ) -> None:
        """Find the ranges. Raises InfeasibleError: no division keeps the lasting rules."""
        self._observation = observation
        self._ranges = size_ranges(observation, lasting=True)
        self._least_bytes = least_bytes(self._ranges)
        self._planned = _division(observation, planned)
        self._deadline_seconds = deadline_seconds
        self._found: dict[int, _Division] = {}
        self._tried: dict[int, _Division] = {}  # also between those that were asked for

    def add(self, budget_bytes: int) -> None:
        """Add a budget, but nothing where minima and kept sizes do not fit."""
        if budget_bytes >= self._least_bytes:
            self._found[budget_bytes] = self._best(budget_bytes)

    def add_least(self, is_enough: _IsEnough) -> None:
        """Add the least budget that is enough, between two that were asked for."""
        curve = self._never_worse()
        high = next((budget for budget, one in curve.items() if is_enough(one)), None)
        low = max((budget for budget in curve if high is not None and budget < high), default=None)
        if high is None or low is None or high - low < self._observation.budget_bytes * _CLOSE:
            return
        best = curve[high]
        for _ in range(_HALVINGS):
            between = (low + high) // 2
            found = self._best(between)
            if is_enough(found):
                high, best = between, found
            else:
                low = between
        self._found[high] = best

    def told(self) -> tuple[WhatIf, ...]:
        """Return what each budget brings, by rising budgets."""
        return tuple(self._told(budget, one) for budget, one in self._never_worse().items())

    def _told(self, budget_bytes: int, division: _Division) -> WhatIf:
        if not self._observation.budget_ratios:
            return WhatIf(budget_bytes, division.seconds)
        reads = sum(server.request_rate_per_second for server in self._observation.servers)
        equal = _equal_sizes(self._observation, budget_bytes)
        return WhatIf(
            budget_bytes,
            division.seconds,
            hit_ratio=max(0.0, 1 - division.misses_per_second / reads) if reads else None,
            misses_per_second=division.misses_per_second,
            optimality_gap=division.gap_ratio,
            equal_sizes_seconds=equal.seconds,
            equal_sizes_misses_per_second=equal.misses_per_second,
        )

    def _never_worse(self) -> dict[int, _Division]:
        """Return divisions by rising budgets. A larger budget can do what a smaller one brings, and
        from M on what the plan does."""
        best, curve = None, {}
        for budget, found in sorted(self._found.items()):
            others = [best] if best else []
            if budget >= self._observation.budget_bytes:
                others.append(self._planned)
            best = curve[budget] = min([found, *others], key=lambda one: one.seconds)
        return curve

    def _best(self, budget_bytes: int) -> _Division:
        if budget_bytes not in self._tried:
            self._tried[budget_bytes] = self._search(budget_bytes)
        return self._tried[budget_bytes]

    def _search(self, budget_bytes: int) -> _Division:
        observation = self._observation
        kept = {
            server.name: self._ranges[server.name]
            if server.keep_reason is not None or server.maximum_bytes is not None
            else SizeRange(self._ranges[server.name].low_bytes, budget_bytes)
            for server in observation.servers
        }
        enough_ratio = max(observation.planning.epsilon_ratio, MORE_MEMORY_GAP_RATIO)
        planning = dataclasses.replace(observation.planning, epsilon_ratio=enough_ratio)
        coarser = max(1, budget_bytes // (observation.unit_bytes * MORE_MEMORY_UNITS))
        observation = dataclasses.replace(
            observation, unit_bytes=observation.unit_bytes * coarser, planning=planning
        )
        deadline = self._deadline_seconds
        problem = build_problem(observation, kept, budget_bytes=budget_bytes, moving=False)
        reserved = reserve_for_bounds(problem, observation, deadline_seconds=deadline)
        problem = with_reserved(problem, reserved.sizes_bytes)
        found = best_split(
            problem, planning, deadline_seconds=deadline, enough_gap_ratio=enough_ratio
        )
        sizes = problem.sizes_bytes(found.units)
        return _division(observation, sizes, found.gap_ratio)


def _division(
    observation: Observation, sizes_bytes: Mapping[str, int], gap_ratio: float = 0.0
) -> _Division:
    """Return what these sizes bring, 0 for no limit."""
    share = shares(observation.servers)
    seconds = misses = 0.0
    for server in observation.servers:
        ratio = server.curve.miss_ratio([sizes_bytes[server.name] or np.inf])
        seconds += share[server.name] * float(
            EffectiveAccessTime.of(server).at_miss_ratios(ratio)[0]
        )
        misses += server.request_rate_per_second * float(ratio[0])
    return _Division(max(0.0, seconds), misses, gap_ratio)


def _equal_sizes(observation: Observation, budget_bytes: int) -> _Division:
    each_bytes = max(1, budget_bytes // len(observation.servers))
    return _division(observation, {server.name: each_bytes for server in observation.servers})
