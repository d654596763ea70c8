"""Judges whether plans go by the hours of yesterday or of last week, by what that would have cost.

What is known of an hour ahead is worth most before anything has changed, when no other half-life
sees a reason to move. So it does not compete by the last cycle. It competes by all that it would
have saved over days, against the plans that the other half-lives make by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sidecar.curves.decaying_counts import RHYTHMS, HalfLife
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.virtual_division import VirtualDivision
from sidecar.half_lives.virtual_plans import FloatArray, VirtualPlanner

# After so many days what was saved counts half.
_DAYS = 2.0
# Standard errors by which it must have saved something, over so much of a day at least.
_ERRORS, _LEAST_DAYS = 2.0, 0.9
# It is believed until it loses so much of a day's saving in a row: then today differs.
_MOST_LOST = 0.5


class RhythmSelection:
    """Judges for one node whether plans go by these hours."""

    def __init__(self) -> None:
        # Each is compared with the other half-lives' own plans, and with the longest one alone.
        self._saved, self._squares = np.zeros((2, len(RHYTHMS))), np.zeros((2, len(RHYTHMS)))
        self._lost = np.zeros(len(RHYTHMS))
        self._days = 0.0
        self._others = VirtualDivision(np.zeros(0))
        self._divisions: list[VirtualDivision] = []

    @property
    def chosen(self) -> HalfLife | None:
        """Return the one to plan by; ``None``: by the other half-lives."""
        if self._days < _LEAST_DAYS:
            return None
        sure = (self._saved - _ERRORS * np.sqrt(self._squares)).min(axis=0)
        sure = np.where(self._lost > _MOST_LOST * self._saved_a_day, 0.0, sure)
        best = int(np.argmax(sure))
        return RHYTHMS[best] if sure[best] > 0 else None

    @property
    def _saved_a_day(self) -> FloatArray:
        return np.asarray(np.maximum(0.0, self._saved.min(axis=0)) / max(1e-9, self._days))

    def begin_with(self, units: FloatArray) -> None:
        """All divisions begin with what is filled now."""
        self._others = VirtualDivision(units)
        self._divisions = [VirtualDivision(units) for _ in RHYTHMS]

    def step(self, miss_costs: FloatArray, fills: FloatArray, longest: float, days: float) -> None:
        """Judge a step that took so much of a day, as ``VirtualDivision.step``; ``longest``: what
        the longest half-life's plans cost."""
        rivals = np.array([self._others.step(miss_costs, fills), longest])
        own = np.array([one.step(miss_costs, fills) for one in self._divisions])
        saved = days * (rivals[:, None] - own)
        fade = 0.5 ** (days / _DAYS)
        self._saved = fade * self._saved + saved
        self._squares = fade * self._squares + saved**2
        self._days = fade * self._days + days
        most = 2 * _MOST_LOST * self._saved_a_day
        self._lost = np.clip(self._lost - saved[0], 0.0, most)

    def plan(
        self, planner: VirtualPlanner, counts: Mapping[str, ReadCounts], others: FloatArray
    ) -> None:
        """Plan by each rhythm now; ``others``: what the other half-lives plan."""
        self._others.planned = others
        for division, half_life in zip(self._divisions, RHYTHMS, strict=True):
            known = any(one.expects(half_life) for one in counts.values())
            costs = planner.miss_costs(counts, half_life) if known else None
            division.planned = others if costs is None else planner.plan(costs)

    def reprice(self, times: float) -> None:
        """The same reads cost so many times as much as they did."""
        self._saved *= times
        self._lost *= times
        self._squares *= times**2
