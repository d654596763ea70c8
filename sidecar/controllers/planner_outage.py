"""Tells for how long no plan comes from elsewhere, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan


@dataclass(frozen=True)
class PlannerOutage:
    """Counts observations in a row that got no plan, or not in time.

    Attributes:
        place: what was asked: ``the cloud`` or ``the service``.
        has_stand_in: the sidecar plans itself meanwhile.
        cycles: how many they are.
        since_seconds: Unix time of the first one.
        last_cycle: number of the last one.
        reason: of that, for people.
    """

    place: str
    has_stand_in: bool
    cycles: int
    since_seconds: float
    last_cycle: int
    reason: str

    def longer(self, observation: Observation, reason: str) -> PlannerOutage:
        """Return the outage with one more cycle, unless it was that one. What could not be put is
        overdue later, too, and the first reason is the cause."""
        if observation.cycle == self.last_cycle:
            return self
        return replace(self, cycles=self.cycles + 1, last_cycle=observation.cycle, reason=reason)

    def stood_in(self, plan: AdaptationPlan) -> bool:
        """Whether the sidecar made it, in place of who was silent."""
        return self.has_stand_in and plan.observation_made_at_seconds >= self.since_seconds

    def words(self) -> str:
        """Say for people how long no plan has come, and why."""
        count = "the last cycle" if self.cycles == 1 else f"the last {self.cycles} cycles"
        then = "the sidecar plans itself" if self.has_stand_in else "nothing moves"
        return (
            f"{self.place} has not answered {count}, since {self._since} "
            f"({self.reason}): {then}; 'spreds check --connect' looks for the cause"
        )

    def over_words(self) -> str:
        """Say the same, when a plan has come from there again."""
        count = "a cycle" if self.cycles == 1 else f"{self.cycles} cycles"
        return f"{self.place} answers again: it had not for {count}, since {self._since}"

    @property
    def _since(self) -> str:
        since = datetime.fromtimestamp(self.since_seconds).astimezone()
        return f"{since:%Y-%m-%d %H:%M %z}"
