"""The controller that needs no cloud: the sidecar plans itself."""

from __future__ import annotations

import time

from sidecar.base.metrics import Metrics
from sidecar.base.worker import Worker
from sidecar.controllers.controller import Delivery, log_failure
from sidecar.controllers.kept_folder import KeptFolder
from sidecar.delivery.plan_inbox import TakePlan
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan


class EmbeddedController:
    """The solver of the function, in the sidecar's process: no cloud, no account, no boto3.

    Observations and plans are kept in ``documents``.
    """

    delivery: Delivery | None = None

    def __init__(self, take_plan: TakePlan, metrics: Metrics, documents: KeptFolder) -> None:
        self._take_plan = take_plan
        self._metrics = metrics
        self._documents = documents
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
        self._documents.keep(
            observation_key(observation.node, observation.cycle), observation.dumps()
        )
        plan = make_plan(observation, now_seconds=time.time())
        document = plan.dumps()
        key = plan_key(observation.node, observation.cycle)
        self._documents.keep(key, document)
        self._metrics.plans_embedded.inc()
        self._documents.prune(observation.node)
        if not self._closed:
            self._take_plan(document, key)
