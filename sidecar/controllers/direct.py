"""Holds a controller that is called and answers with the plan, in a thread of its own."""

from __future__ import annotations

from sidecar.base.worker import Worker
from sidecar.controllers.controller import Delivery, log_failure
from sidecar.controllers.kept_folder import KeptFolder
from sidecar.controllers.planner_outage import PlannerOutage
from sidecar.plans.plan_check import TakePlan
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation


class DirectController:
    """Answers where it is called; nothing is stored on the way. Observations, and plans that are
    believed, are kept in ``documents``. ``maker``: who makes the plans, for people."""

    delivery: Delivery | None = None
    silence: PlannerOutage | None = None
    problem: str | None = None

    def __init__(self, thread: str, maker: str, take_plan: TakePlan, documents: KeptFolder) -> None:
        self._maker = maker
        self._take_plan = take_plan
        self._documents = documents
        self._worker = Worker(thread)
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

    def _answer(self, observation: Observation) -> bytes | None:
        """Return the plan's document; ``None``: there is none."""
        raise NotImplementedError

    def _plan(self, observation: Observation) -> None:
        # Through the documents, so that the steps and checks are the same as in the cloud.
        self._documents.keep(
            observation_key(observation.node, observation.cycle), observation.dumps()
        )
        plan = self._answer(observation)
        key = plan_key(observation.node, observation.cycle)
        if (
            plan is not None
            and not self._closed
            and self._take_plan(plan, f"{key} from {self._maker}")
        ):
            self._documents.keep(key, plan)
        self._documents.prune(observation.node)
