"""Makes plans without a cloud: the sidecar plans itself."""

from __future__ import annotations

import time

from sidecar.base.metrics import Metrics
from sidecar.controllers.direct import DirectController
from sidecar.controllers.kept_folder import KeptFolder
from sidecar.plans.plan_check import TakePlan
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan


class EmbeddedController(DirectController):
    """Runs the function's solver in the sidecar's process: no cloud, no account, no boto3."""

    def __init__(self, take_plan: TakePlan, metrics: Metrics, documents: KeptFolder) -> None:
        super().__init__("solver", "this sidecar's own solver", take_plan, documents)
        self._metrics = metrics

    def _answer(self, observation: Observation) -> bytes:
        plan = make_plan(observation, now_seconds=time.time())
        self._metrics.plans_embedded.inc()
        return plan.dumps()
