"""The controller in the cloud: a function or a task, which S3 starts."""

from __future__ import annotations

import logging

from sidecar.base.metrics import Metrics
from sidecar.base.worker import Worker
from sidecar.controllers.controller import Delivery, Failed, log_failure
from sidecar.controllers.planner_outage import PlannerOutage
from sidecar.storage.store import Store, StoreError
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation

log = logging.getLogger(__name__)


class CloudController:
    """Puts observations into S3; plans come by notification.

    ``failed`` is told of an observation that could not be put, and why.
    """

    silence: PlannerOutage | None = None  # ``failed`` is told of each, and counts them
    problem: str | None = None

    def __init__(
        self,
        observations: Store,
        delivery: Delivery,
        metrics: Metrics,
        failed: Failed,
    ) -> None:
        self.delivery: Delivery = delivery
        self._observations = observations
        self._metrics = metrics
        self._failed = failed
        self._worker = Worker("observations")

    def start(self) -> None:
        self.delivery.start()

    def ask(self, observation: Observation) -> None:
        self.delivery.expect(plan_key(observation.node, observation.cycle))
        self._worker.submit(lambda: self._put(observation)).add_done_callback(log_failure)

    def overdue(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        self.delivery.close()
        self._worker.close()

    def _put(self, observation: Observation) -> None:
        key = observation_key(observation.node, observation.cycle)
        try:
            self._observations.put(key, observation.dumps())
        except StoreError as error:
            self._metrics.observations_failed.inc()
            log.warning("observation of cycle %d not stored: %s", observation.cycle, error)
            self._failed(observation, str(error))
