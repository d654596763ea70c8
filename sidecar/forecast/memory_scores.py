"""Memories in competition: each is judged by what the plans it would have made cost next."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.remembered import MEMORIES, STEPS_A_CYCLE, Memory
from sidecar.forecast.virtual_plans import FloatArray, VirtualPlanner, cost_of

# After a cycle, what a memory's plans were worth counts half.
_FADE = 0.5 ** (1 / STEPS_A_CYCLE)
# What the sizes in force cost more than a memory's, of all cost, beyond this, step for step, is
# summed up (a CUSUM); a plan is due early when the sum exceeds the threshold.
_SLACK = 0.01
_LEAST_THRESHOLD, _MOST_THRESHOLD = 0.05, 0.4
# Nothing is early before so much is known, nor so soon after the last plan.
_FIRST_STEPS, _STEPS_BETWEEN = 4, 2


class MemoryScores:
    """Sums of what each memory's plans gained over the sizes in force, in the step after each.

    Attributes:
        early: the memory that a plan is due by at once, ``None`` if none is.
    """

    def __init__(self) -> None:
        self._gains = np.zeros(len(MEMORIES))
        self._recent = np.zeros(len(MEMORIES))
        self._threshold = _LEAST_THRESHOLD
        self._steps = self._steps_since_plan = 0.0
        self._plans: list[FloatArray] = []
        self._planner: VirtualPlanner | None = None
        self.early: Memory | None = None

    @property
    def best(self) -> Memory:
        """The one whose plans gained most."""
        return MEMORIES[int(np.argmax(self._gains))]

    def has_gained(self, memory: Memory) -> bool:
        """Whether its plans were better than the sizes in force."""
        return bool(self._gains[MEMORIES.index(memory)] > 0)

    def step(
        self,
        planner: VirtualPlanner,
        counts: Mapping[str, ReadCounts],
        sizes_bytes: Mapping[str, int],
        steps: float = 1.0,
    ) -> None:
        """At the end of a step, in which these sizes were planned; it may be a part of a step, or
        last for several."""
        self._steps += steps
        self._steps_since_plan += steps
        self.early = None
        # Plans for other servers, weights or minima say nothing.
        if self._planner is planner:
            costs = planner.miss_costs(counts, None)
            now = cost_of(planner.units(sizes_bytes), costs)
            total = now + planner.hit_costs(counts, None)
            if total > 0:
                gains = np.array([now - cost_of(plan, costs) for plan in self._plans]) / total
                self._judge(gains, steps)
        self._planner = planner
        self._plans = [planner.plan(planner.miss_costs(counts, memory)) for memory in MEMORIES]

    def _judge(self, gains: FloatArray, steps: float) -> None:
        self._gains = self._gains * _FADE**steps + steps * gains
        self._recent = np.maximum(0.0, self._recent + steps * (gains - _SLACK))
        winner = int(np.argmax(self._recent))
        may_be_early = self._steps >= _FIRST_STEPS and self._steps_since_plan >= _STEPS_BETWEEN
        if may_be_early and self._recent[winner] > self._threshold:
            self.early = MEMORIES[winner]

    def planned(self, *, applied: bool, early: bool) -> None:
        """There is a new plan; one that was early and in vain makes the next less likely."""
        if applied:
            self._threshold = _LEAST_THRESHOLD
        elif early:
            self._threshold = min(_MOST_THRESHOLD, 2 * self._threshold)
        self.early = None
        self._steps_since_plan = 0.0
        self._recent[:] = 0.0
