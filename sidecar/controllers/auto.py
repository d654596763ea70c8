"""The controller that has both: one elsewhere, and the sidecar itself where no plan comes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sidecar.base.metrics import Metrics
from sidecar.controllers.controller import Controller, Delivery
from sidecar.controllers.embedded import EmbeddedController
from solver_lambda.documents.observation import Observation

log = logging.getLogger(__name__)


class AutoController:
    """The cloud or a service, with the embedded solver standing in.

    Every observation goes there. One that could not be put, or is not answered by the
    deadline, goes to the embedded solver; whichever plan comes first is carried out, and the other
    is refused as not newer. Each stand-in is counted and logged.
    """

    def __init__(
        self,
        make_elsewhere: Callable[[Callable[[Observation], None]], Controller],
        embedded: EmbeddedController,
        metrics: Metrics,
    ) -> None:
        self._elsewhere = make_elsewhere(self.overdue)
        self._embedded = embedded
        self._metrics = metrics

    @property
    def delivery(self) -> Delivery | None:
        return self._elsewhere.delivery

    def start(self) -> None:
        self._elsewhere.start()

    def ask(self, observation: Observation) -> None:
        self._elsewhere.ask(observation)

    def overdue(self, observation: Observation) -> None:
        self._metrics.stand_ins.inc()
        log.warning("cycle %d: the embedded solver stands in", observation.cycle)
        self._embedded.ask(observation)

    def close(self) -> None:
        self._elsewhere.close()
        self._embedded.close()
