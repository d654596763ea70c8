"""Plans of the simulation are held against what came after them, as the sidecar's are."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.control.plan_outcome import PlanOutcome
from sidecar.control.plan_verification import wait_seconds
from sidecar.curves.read_counts import ReadCounts
from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan


class VerifiedPlans:
    """Of one simulated node.

    Attributes:
        rolled_back: plans that were taken back.
    """

    def __init__(self, cycle_seconds: float) -> None:
        self.rolled_back = 0
        self._cycle_seconds = cycle_seconds
        self._promise: PlanOutcome | None = None
        self._before: dict[str, int] = {}
        self._failures = 0
        self._waits_until = 0.0

    def may_plan(self, now_seconds: float) -> bool:
        """Whether a plan may be carried out."""
        return now_seconds >= self._waits_until

    def begin(
        self, observation: Observation, plan: AdaptationPlan, before_bytes: dict[str, int]
    ) -> None:
        """A plan is carried out, in place of these sizes."""
        self._promise = PlanOutcome(observation, plan, before_bytes)
        self._before = before_bytes

    def look(self, readings: Mapping[str, ServerReading]) -> None:
        """Count what the servers say."""
        if self._promise is not None:
            self._promise.look(readings)

    def step(self, counts: Mapping[str, ReadCounts], seconds: float) -> None:
        """A step of the curves is over."""
        if self._promise is not None:
            self._promise.step(counts, seconds)

    def conclude(self, targets_bytes: dict[str, int], now_seconds: float) -> dict[str, int]:
        """The next plan is due: the targets from now on."""
        promise, self._promise = self._promise, None
        verdict = promise.check().verdict if promise else None
        if verdict in ("kept", "too_early"):
            self._failures = 0
        if verdict != "failed":
            return targets_bytes
        self._failures += 1
        self.rolled_back += 1
        self._waits_until = now_seconds + wait_seconds(self._cycle_seconds, self._failures)
        return self._before
