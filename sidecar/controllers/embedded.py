"""The controller that needs no cloud: the sidecar plans itself."""

from __future__ import annotations

import logging
import time

from sidecar.base.metrics import Metrics
from sidecar.base.worker import Worker
from sidecar.controllers.controller import Delivery, log_failure
from sidecar.delivery.plan_inbox import TakePlan
from sidecar.storage.store import Store, StoreError
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan

log = logging.getLogger(__name__)


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
        self._worker.submit(lambda: self._plan(observation)).add_done_callback(log_failure)

    def overdue(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        self._closed = True
        self._worker.close()

    def _plan(self, observation: Observation) -> None:
        # Through the document, so that the steps and checks are the same as in the cloud.
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
