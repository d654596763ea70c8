"""Asks the controller elsewhere, and the sidecar itself where no plan comes from there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sidecar.base.log_setup import EVENT
from sidecar.base.metrics import Metrics
from sidecar.controllers.controller import Controller, Delivery, Failed
from sidecar.controllers.embedded import EmbeddedController
from sidecar.controllers.planner_outage import PlannerOutage
from sidecar.plans.plan_check import TakePlan
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.units import format_duration

log = logging.getLogger(__name__)


class RemoteWithFallback:
    """Asks the cloud or a service, with the embedded solver standing in if there is one.

    Every observation goes there. One that could not be put, or is not answered by the
    deadline, goes to the embedded solver; whichever plan comes first is carried out, and the other
    is refused as not newer. Each stand-in is counted and logged.

    An observation by which plans did harm goes to the embedded solver alone: who makes the plans
    elsewhere may be hostile or dead, and has no say in the way back.

    Args:
        place: what is asked: ``the cloud`` or ``the service``.
        stands_in: the embedded solver does so for plans that do not come.
    """

    def __init__(
        self,
        place: str,
        make_elsewhere: Callable[[TakePlan, Failed], Controller],
        take_plan: TakePlan,
        embedded: EmbeddedController,
        stands_in: bool,
        deadline_seconds: float,
        metrics: Metrics,
    ) -> None:
        self._place = place
        self._silence: PlannerOutage | None = None
        self._lock = threading.Lock()
        self._take_plan = take_plan
        self._elsewhere = make_elsewhere(self._take, self._failed)
        self._embedded = embedded
        self._stands_in = stands_in
        self._goes_back = False
        self._deadline_seconds = deadline_seconds
        self._metrics = metrics

    @property
    def delivery(self) -> Delivery | None:
        return self._elsewhere.delivery

    @property
    def silence(self) -> PlannerOutage | None:
        return self._silence

    @property
    def problem(self) -> str | None:
        if not self._goes_back:
            return None
        return (
            f"with the load as it was, the plans of {self._place} would have cost more than the "
            "sizes from before there were plans: the sidecar goes back to these by itself, and "
            f"asks {self._place} again when plans are better. Has the load changed much? If not, "
            "who can write plans, or makes them?"
        )

    def start(self) -> None:
        self._elsewhere.start()

    def ask(self, observation: Observation) -> None:
        is_new, self._goes_back = not self._goes_back, observation.goes_back
        if not observation.goes_back:
            self._elsewhere.ask(observation)
            return
        self._metrics.ways_back.inc()
        if is_new:
            log.warning("cycle %d: %s", observation.cycle, self.problem)
        self._embedded.ask(observation)

    def overdue(self, observation: Observation) -> None:
        if observation.goes_back:
            return  # nobody else was asked
        limit = format_duration(self._deadline_seconds)
        self._failed(observation, f"no plan that could be taken came within {limit}")

    def close(self) -> None:
        self._elsewhere.close()
        self._embedded.close()

    def _take(self, document: bytes, source: str) -> bool:
        """Take a plan from elsewhere, maybe a late one: what is believed ends the silence."""
        if self._goes_back:
            self._metrics.plans_refused.labels("going_back").inc()
            log.warning("plan refused: going_back: nobody was asked for one (%s)", source)
            return False
        if not self._take_plan(document, source):
            return False
        with self._lock:
            over, self._silence = self._silence, None
        if over is not None:
            log.warning("%s", over.over_words(), extra=EVENT)
        return True

    def _failed(self, observation: Observation, reason: str) -> None:
        """Note a failure. The controller elsewhere calls this, in its thread, and it is called when
        a plan is overdue."""
        with self._lock:
            is_new = self._silence is None
            self._silence = self._longer_silence(observation, reason)
        if is_new:
            log.warning("%s", self._silence.words(), extra=EVENT)
        if self._stands_in:
            self._metrics.stand_ins.inc()
            log.warning("cycle %d: the embedded solver stands in", observation.cycle)
            self._embedded.ask(observation)

    def _longer_silence(self, observation: Observation, reason: str) -> PlannerOutage:
        if self._silence is not None:
            return self._silence.longer(observation, reason)
        since_seconds = observation.made_at_seconds
        cycle, has_stand_in = observation.cycle, self._stands_in
        return PlannerOutage(self._place, has_stand_in, 1, since_seconds, cycle, reason)
