"""Who makes the plans: the cloud (Lambda or Fargate), the sidecar itself, or the one that can."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from sidecar.metrics import Metrics
from sidecar.plans.plan_inbox import TakePlan
from sidecar.storage.store import Store, StoreError
from sidecar.worker import Worker
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan

log = logging.getLogger(__name__)


class Controller(Protocol):
    """Answers observations with plans, sooner or later. No method blocks for long.

    Attributes:
        delivery: of plans from elsewhere, if there is one.
    """

    @property
    def delivery(self) -> Delivery | None: ...

    def start(self) -> None:
        """Begin to take plans."""

    def ask(self, observation: Observation) -> None:
        """Ask for a plan; it comes through the ``take_plan`` that the controller was made with."""

    def overdue(self, observation: Observation) -> None:
        """The plan for it has not come in time."""

    def close(self) -> None:
        """Take no more plans."""


class Delivery(Protocol):
    """Brings notifications to the inbox."""

    def start(self) -> None: ...

    def expect(self) -> None:
        """An observation is on its way; its plan will come."""

    def close(self) -> None: ...


class EmbeddedController:
    """The solver of the function, in the sidecar's process: no cloud, no account, no boto3.

    With a store, observation and plan are kept there under the same keys as in S3.
    """

    delivery: Delivery | None = None

    def __init__(self, take_plan: TakePlan, metrics: Metrics, store: Store | None) -> None:
        self._take_plan = take_plan
        self._metrics = metrics
        self._store = store
        self._worker = Worker("solver")
        self._closed = False

    def start(self) -> None:
        pass

    def ask(self, observation: Observation) -> None:
        self._worker.submit(lambda: self._plan(observation)).add_done_callback(_log_failure)

    def overdue(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        self._closed = True
        self._worker.close()

    def _plan(self, observation: Observation) -> None:
        # Through the document, so that it is the same road and the same check as in the cloud.
        self._keep(observation_key(observation.node, observation.cycle), observation.dumps())
        plan = make_plan(observation, now_seconds=time.time())
        document = plan.dumps()
        key = plan_key(observation.node, observation.cycle)
        self._keep(key, document)
        self._metrics.plans_embedded.inc()
        if not self._closed:
            self._take_plan(document, key)

    def _keep(self, key: str, document: bytes) -> None:
        if self._store is None:
            return
        try:
            self._store.put(key, document)
        except StoreError as error:
            self._metrics.store_errors.inc()
            log.warning("document not kept: %s", error)


class CloudController:
    """Puts observations into S3; plans come by notification.

    ``failed`` is told of an observation that could not be put.
    """

    def __init__(
        self,
        observations: Store,
        delivery: Delivery,
        metrics: Metrics,
        failed: Callable[[Observation], None],
    ) -> None:
        self.delivery: Delivery = delivery
        self._observations = observations
        self._metrics = metrics
        self._failed = failed
        self._worker = Worker("observations")

    def start(self) -> None:
        self.delivery.start()

    def ask(self, observation: Observation) -> None:
        self.delivery.expect()
        self._worker.submit(lambda: self._put(observation)).add_done_callback(_log_failure)

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
            self._failed(observation)


class AutoController:
    """The cloud, with the embedded solver standing in.

    Every observation goes to the cloud. One that could not be put, or is not answered by the
    deadline, goes to the embedded solver; whichever plan comes first is carried out, and the other
    is refused as not newer. Each stand-in is counted and logged.
    """

    def __init__(
        self,
        make_cloud: Callable[[Callable[[Observation], None]], CloudController],
        embedded: EmbeddedController,
        metrics: Metrics,
    ) -> None:
        self._cloud = make_cloud(self.overdue)
        self._embedded = embedded
        self._metrics = metrics

    @property
    def delivery(self) -> Delivery | None:
        return self._cloud.delivery

    def start(self) -> None:
        self._cloud.start()

    def ask(self, observation: Observation) -> None:
        self._cloud.ask(observation)

    def overdue(self, observation: Observation) -> None:
        self._metrics.stand_ins.inc()
        log.warning("cycle %d: the embedded solver stands in", observation.cycle)
        self._embedded.ask(observation)

    def close(self) -> None:
        self._cloud.close()
        self._embedded.close()


def _log_failure(future: Future[None]) -> None:
    error = future.exception() if not future.cancelled() else None
    if error is not None:
        log.error("an observation was lost: %r", error, exc_info=error)
