"""Memory lengths in competition: each is judged by the plans that it would have made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidecar.curves.remembered import MEMORIES, Memory
from solver_lambda.solvers.hill_climbing import LookAhead
from solver_lambda.solvers.lagrangian import lagrangian_bound
from solver_lambda.solvers.partition_problem import PartitionProblem

FloatArray = npt.NDArray[np.float64]

STEP_SECONDS = 300.0
UNITS = 256
import os as _o
FOLDS = int(_o.environ.get("FOLDS", "8"))
import os
KS = float(os.environ.get("KS", "0.5"))
HS = float(os.environ.get("HS", "4"))
COARSE_STEP = False
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

    def misses(self, sizes_bytes: FloatArray, memory: Memory | None, *, by_group: bool = False) -> FloatArray:
        """A second, see ``ServerMonitor``."""

    def reads(self, memory: Memory | None) -> float:
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
        self._scores = np.zeros(len(MEMORIES))
        self._advantages = np.zeros(len(MEMORIES))
        self._threshold = _LEAST_ADVANTAGE
        self._age_seconds = self._since_plan_seconds = 0.0
        self._plans: list[npt.NDArray[np.int64]] = []
        self._sigma = None

    @property
    def best(self) -> Memory:
        """The one whose plans have cost least."""
        return MEMORIES[int(np.argmin(self._scores))]

    def evidence(
        self, monitors: Mapping[str, Followed], memory: Memory, sizes_bytes: Mapping[str, int]
    ) -> tuple[float, float, float]:
        """Of plans that were made by a part of the objects and judged on the others."""
        groups = self._costs(monitors, memory, by_group=True)  # (groups, n, units)
        sizes = np.array([sizes_bytes[name] for name in self._names])
        units = np.clip((sizes - self._minima) / self._unit_bytes, 0, UNITS)
        rows, grid = np.arange(len(self._names)), np.arange(UNITS + 1)
        whole = groups.mean(axis=0)
        reads = np.array([monitors[name].reads(memory) for name in self._names])

        def now(costs):
            return sum(np.interp(u, grid, row) for u, row in zip(units, costs, strict=True))

        total = float(now(whole) + self._hit_costs @ reads) + 1e-12
        seen = (now(whole) - whole[rows, self._plan(whole)].sum()) / total
        gains = []
        for fold in range(FOLDS):
            judged = groups[fold::FOLDS].mean(axis=0)
            others = (whole * FOLDS - judged) / (FOLDS - 1)
            gains.append((now(judged) - judged[rows, self._plan(others)].sum()) / total)
        return float(seen), float(np.mean(gains)), float(np.std(gains, ddof=1) / FOLDS**0.5)

    def step(
        self, monitors: Mapping[str, Followed], sizes_bytes: Mapping[str, int], seconds: float
    ) -> Memory | None:
        """At the end of a step, with the sizes in force: the memory length that a plan should be
        made by at once, ``None`` if none is due early."""
        self._age_seconds += seconds
        self._since_plan_seconds += seconds
        groups = self._costs(monitors, None, by_group=True)
        costs = groups.mean(axis=0) if COARSE_STEP else self._costs(monitors, None)
        sizes = np.array([sizes_bytes[name] for name in self._names])
        units = np.clip((sizes - self._minima) / self._unit_bytes, 0, UNITS)
        grid = np.arange(UNITS + 1)
        now = sum(np.interp(u, grid, row) for u, row in zip(units, costs, strict=True))
        reads = np.array([monitors[name].reads(None) for name in self._names])
        total = float(now + self._hit_costs @ reads) + 1e-12
        early = None
        if self._plans:
            rows = np.arange(len(costs))
            losses = np.array([costs[rows, plan].sum() for plan in self._plans])
            advantages = (now - losses) / total
            now_g = sum(np.stack([np.interp(u, grid, row) for row in groups[:, i]]) for i, u in enumerate(units))
            adv_g = np.stack([(now_g - groups[:, rows, plan].sum(axis=1)) / total for plan in self._plans])
            sigma = adv_g.std(axis=1, ddof=1) / len(groups) ** 0.5
            self._sigma = sigma if self._sigma is None else 0.7 * self._sigma + 0.3 * sigma
            fade = 0.5 ** (seconds / _SCORE_HALF_LIFE_SECONDS)
            self._scores = self._scores * fade - advantages
            self._advantages = np.maximum(0.0, self._advantages + advantages - np.maximum(_SLACK, KS * self._sigma))
            over = self._advantages - np.maximum(self._threshold, HS * self._sigma)
            winner = int(np.argmax(over))
            is_time = (
                self._age_seconds >= FIRST_SECONDS
                and self._since_plan_seconds >= _LEAST_BETWEEN_SECONDS
            )
            if is_time and over[winner] > 0:
                early = MEMORIES[winner]
        self._plans = [
            self._plan(self._costs(monitors, memory)) for memory in MEMORIES
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

    def _costs(self, monitors: Mapping[str, Followed], memory: Memory | None, *, by_group: bool = False) -> FloatArray:
        """Of misses, a second, by server and units; shape (n, UNITS + 1)."""
        grid = np.arange(UNITS + 1) * self._unit_bytes
        return np.stack(
            [
                penalty * monitors[name].misses(least + grid, memory, by_group=by_group)
                for name, penalty, least in zip(
                    self._names, self._penalties, self._minima, strict=True
                )
            ],
            axis=-2,
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
