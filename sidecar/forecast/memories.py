"""Memory lengths in competition: each is judged by the plans that it would have made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidecar.curves.remembered import HALF_LIVES_SECONDS
from solver_lambda.solvers.hill_climbing import LookAhead
from solver_lambda.solvers.lagrangian import lagrangian_bound
from solver_lambda.solvers.partition_problem import PartitionProblem

FloatArray = npt.NDArray[np.float64]

STEP_SECONDS = 300.0
import os
OPT = float(os.environ.get("OPT", "0.5"))
OPT_HALF = float(os.environ.get("OPT_HALF", "7200"))
UNITS = 256
# After it, what a memory was worth counts half.
_SCORE_HALF_LIFE_SECONDS = 3600.0
# What the sizes in force cost more than a memory's, of all cost, beyond this, step for step, is
# summed up; a plan is due early when the sum exceeds the threshold.
_SLACK = 0.01
_LEAST_ADVANTAGE, _MOST_ADVANTAGE = 0.05, 0.4
# Nothing is early before so much is known.
FIRST_SECONDS = 1200.0
_LEAST_BETWEEN_SECONDS = 600.0


class Followed(Protocol):
    """A server's monitor."""

    def misses(self, sizes_bytes: FloatArray, memory: int | None, half: int) -> FloatArray:
        """A second, see ``ServerMonitor``."""

    def reads(self, memory: int | None) -> float:
        """A second."""


class Memories:
    """Scores of the memory lengths, and whether a plan is due early.

    Args:
        penalties: by server, what a miss costs more than a hit: weighted seconds.
        hit_costs: by server, what a hit costs: weighted seconds.
        minimum_bytes: by server, the least that it may have.
    """

    def __init__(
        self,
        penalties: Mapping[str, float],
        hit_costs: Mapping[str, float],
        minima_bytes: Mapping[str, int],
        budget_bytes: int,
    ) -> None:
        self._names = tuple(sorted(penalties))
        self._penalties = np.array([penalties[name] for name in self._names])
        self._hit_costs = np.array([hit_costs[name] for name in self._names])
        self._minima = np.array([minima_bytes[name] for name in self._names])
        self._unit_bytes = max(1, int(budget_bytes - self._minima.sum()) // UNITS)
        self._scores = np.zeros(len(HALF_LIVES_SECONDS))
        self._advantages = np.zeros(len(HALF_LIVES_SECONDS))
        self._threshold = _LEAST_ADVANTAGE
        self._age_seconds = self._since_plan_seconds = 0.0
        self._plans: list[list[npt.NDArray[np.int64]]] = []
        self._seen = self._opt_seen = 0.0
        self._optimism = np.zeros(len(HALF_LIVES_SECONDS))

    @property
    def best(self) -> int:
        """The memory length whose plans have cost least."""
        return int(np.argmin(self._scores))

    @property
    def proven_ratio(self) -> float:
        """By how much the best ones' plans would have been better than the sizes in force."""
        return float(-self._scores[self.best] / self._seen) if self._seen else 0.0

    def step(
        self, monitors: Mapping[str, Followed], sizes_bytes: Mapping[str, int], seconds: float
    ) -> int | None:
        """At the end of a step, with the sizes in force: the memory length that a plan should be
        made by at once, ``None`` if none is due early."""
        self._age_seconds += seconds
        self._since_plan_seconds += seconds
        halves = [self._costs(monitors, None, half) for half in (0, 1)]
        costs = [*halves, (halves[0] + halves[1]) / 2]
        sizes = np.array([sizes_bytes[name] for name in self._names])
        units = np.clip((sizes - self._minima) / self._unit_bytes, 0, UNITS)
        grid = np.arange(UNITS + 1)
        now = [
            float(sum(np.interp(u, grid, row) for u, row in zip(units, part, strict=True)))
            for part in costs
        ]
        reads = np.array([monitors[name].reads(None) for name in self._names])
        total = float(now[2] + self._hit_costs @ reads) + 1e-12
        early = None
        if self._plans:
            rows = np.arange(len(self._names))

            def advantage(plan: npt.NDArray[np.int64], on: int) -> float:
                return float(now[on] - costs[on][rows, plan].sum()) / total

            found = np.array([advantage(plans[2], 2) for plans in self._plans])
            # What a plan seems to gain on the objects that it was made by, beyond what it gains on
            # others; of all objects together it is about half of what it is of their halves.
            optimism = np.array(
                [
                    np.mean(
                        [
                            advantage(plans[h], h) - advantage(plans[h], 1 - h)
                            + advantage(plans[1 - h], 1 - h) - advantage(plans[1 - h], h)
                            for h in (0,)
                        ]
                    ) / 2
                    for plans in self._plans
                ]
            )
            fade = 0.5 ** (seconds / OPT_HALF)
            self._optimism = self._optimism * fade + optimism
            self._opt_seen = self._opt_seen * fade + 1
            advantages = found - OPT * np.maximum(0, self._optimism / self._opt_seen)
            self._seen = self._seen * 0.5 ** (seconds / _SCORE_HALF_LIFE_SECONDS) + 1
            fade = 0.5 ** (seconds / _SCORE_HALF_LIFE_SECONDS)
            self._scores = self._scores * fade - advantages
            self._advantages = np.maximum(0.0, self._advantages + advantages - _SLACK)
            winner = int(np.argmax(self._advantages))
            is_time = (
                self._age_seconds >= FIRST_SECONDS
                and self._since_plan_seconds >= _LEAST_BETWEEN_SECONDS
            )
            if is_time and self._advantages[winner] > self._threshold:
                early = winner
        self._plans = [
            self._plans_of(monitors, memory)
            for memory in range(len(HALF_LIVES_SECONDS))
        ]
        return early

    def planned(self, *, applied: bool, early: bool) -> None:
        """A plan was made."""
        self._since_plan_seconds = 0.0
        self._advantages[:] = 0.0
        if applied:
            self._threshold = _LEAST_ADVANTAGE
        elif early:
            self._threshold = min(_MOST_ADVANTAGE, 2 * self._threshold)

    def _plans_of(self, monitors: Mapping[str, Followed], memory: int) -> list[npt.NDArray[np.int64]]:
        halves = [self._costs(monitors, memory, half) for half in (0, 1)]
        return [self._plan(part) for part in (*halves, (halves[0] + halves[1]) / 2)]

    def _costs(self, monitors: Mapping[str, Followed], memory: int | None, half: int) -> FloatArray:
        """Of misses, a second, by server and units; shape (n, UNITS + 1)."""
        grid = np.arange(UNITS + 1) * self._unit_bytes
        return np.stack(
            [
                penalty * monitors[name].misses(least + grid, memory, half)
                for name, penalty, least in zip(
                    self._names, self._penalties, self._minima, strict=True
                )
            ]
        )

    def _plan(self, costs: FloatArray) -> npt.NDArray[np.int64]:
        count = len(costs)
        problem = PartitionProblem(
            self._names,
            tuple(self._minima.tolist()),
            self._unit_bytes,
            UNITS,
            np.full(count, UNITS, dtype=np.int64),
            -costs,
        )
        return LookAhead(problem, lagrangian_bound(problem)).solve()
