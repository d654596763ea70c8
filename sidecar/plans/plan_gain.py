"""Tells what a plan gains, in the one number that is told everywhere, and how little may be known
yet."""

from __future__ import annotations

from typing import NamedTuple

from sidecar.plans.plan_knowledge import known_words
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.words import gain_words
from solver_lambda.planning.decision import gain_of


class PlanGain(NamedTuple):
    """Predicts weighted mean access times in seconds, ``None`` where the planner predicts none.

    Attributes:
        after_seconds: with the cost of moving.
        known: how much is known of the curves, for people, where that is little.
    """

    before_seconds: float | None
    after_seconds: float | None
    known: str | None = None

    @classmethod
    def of(cls, plan: AdaptationPlan, asked: Observation, *, is_early: bool = False) -> PlanGain:
        """Return what a plan gains. ``asked``: what it answers, which says what moving costs.
        ``is_early``: there have not been plans for long."""
        after = plan.mean_access_time_seconds
        if after is not None and plan.decision == "apply":
            sizes = {server.name: server.maxmemory_bytes for server in plan.servers}
            after += gain_of(asked, sizes).moving
        return cls(
            plan.mean_access_time_before_seconds, after, known_words(asked, is_early=is_early)
        )

    @property
    def ratio(self) -> float | None:
        """Return the share by which the mean access time falls."""
        if self.before_seconds is None or self.after_seconds is None:
            return None
        return 1 - self.after_seconds / self.before_seconds if self.before_seconds else 0.0

    @property
    def words(self) -> str | None:
        """Return the gain in words."""
        if self.before_seconds is None or self.after_seconds is None:
            return None
        return gain_words(self.before_seconds, self.after_seconds)
