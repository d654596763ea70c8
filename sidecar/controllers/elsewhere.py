"""The controller elsewhere, and the sidecar itself where no plan comes from there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sidecar.base.metrics import Metrics
from sidecar.controllers.controller import Controller, Delivery, Failed
from sidecar.controllers.embedded import EmbeddedController
from sidecar.controllers.silence import Silence
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.units import format_duration

log = logging.getLogger(__name__)


class ElsewhereController:
    """The cloud or a service, with the embedded solver standing in if there is one.

    Every observation goes there. One that could not be put, or is not answered by the
    deadline, goes to the embedded solver; whichever plan comes first is carried out, and the other
    is refused as not newer. Each stand-in is counted and logged.

    ``place`` is what is asked: ``the cloud`` or ``the service``.
    """

    def __init__(
        self,
        place: str,
        make_elsewhere: Callable[[Failed], Controller],
        stand_in: EmbeddedController | None,
        deadline_seconds: float,
        metrics: Metrics,
    ) -> None:
        self._place = place
        self._silence: Silence | None = None
        self._lock = threading.Lock()
        self._elsewhere = make_elsewhere(self._failed)
        self._stand_in = stand_in
        self._deadline_seconds = deadline_seconds
        self._metrics = metrics

    @property
    def delivery(self) -> Delivery | None:
        return self._elsewhere.delivery

    @property
    def silence(self) -> Silence | None:
        return self._silence

    def start(self) -> None:
        self._elsewhere.start()

    def ask(self, observation: Observation) -> None:
        self._elsewhere.ask(observation)

    def answered(self, observation: Observation) -> None:
        with self._lock:
            # One that had failed was answered by the stand-in.
            if self._silence is not None and self._silence.last_cycle != observation.cycle:
                self._silence = None

    def overdue(self, observation: Observation) -> None:
        limit = format_duration(self._deadline_seconds)
        self._failed(observation, f"no plan that could be taken came within {limit}")

    def close(self) -> None:
        self._elsewhere.close()
        if self._stand_in is not None:
            self._stand_in.close()

    def _failed(self, observation: Observation, reason: str) -> None:
        """Called by the controller elsewhere, in its thread, and when a plan is overdue."""
        with self._lock:
            self._silence = self._longer_silence(observation, reason)
        if self._stand_in is not None:
            self._metrics.stand_ins.inc()
            log.warning("cycle %d: the embedded solver stands in", observation.cycle)
            self._stand_in.ask(observation)

    def _longer_silence(self, observation: Observation, reason: str) -> Silence:
        if self._silence is not None:
            return self._silence.longer(observation, reason)
        since_seconds = observation.made_at_seconds
        has_stand_in = self._stand_in is not None
        return Silence(self._place, has_stand_in, 1, since_seconds, observation.cycle, reason)
