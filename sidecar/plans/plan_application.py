"""Judges a plan's document and hands its sizes to the actuator."""

from __future__ import annotations

import logging
import threading
import time

from sidecar.base.metrics import Metrics, reason_code
from sidecar.config.node import SidecarConfig
from sidecar.plans.plan_check import PlanRefusedError, check_plan
from sidecar.servers.actuator import Actuator
from sidecar.state.state_store import StateStore
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


class PlanApplication:
    """Takes plans from whichever thread brings them.

    ``lock`` keeps them apart from observations: a plan is judged by what was asked last.

    Attributes:
        cycles: plans that passed every check, also those that keep all sizes.
        last_plan: the last of them.
    """

    def __init__(
        self,
        config: SidecarConfig,
        store: StateStore,
        lock: threading.RLock,
        actuator: Actuator,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.cycles = 0
        self.last_plan: AdaptationPlan | None = None
        self._store = store
        self._lock = lock
        self._actuator = actuator
        self._metrics = metrics

    @property
    def changes_sizes(self) -> bool:
        """Whether the last one does."""
        return self.last_plan is not None and self.last_plan.decision == "apply"

    def take(self, document: bytes, source: str) -> None:
        """Judge a plan's document and carry it out; a refusal is counted and logged."""
        with self._lock:
            try:
                plan = AdaptationPlan.loads(document, source)
                check_plan(
                    plan,
                    self._store.now,
                    self.config.node,
                    now_seconds=time.time(),
                    maximum_age_seconds=self.config.controller.maximum_plan_age_seconds,
                )
            except DocumentError as error:
                self._metrics.plans_refused.labels("malformed").inc()
                log.warning("plan refused: malformed: %s", error)
            except PlanRefusedError as error:
                self._metrics.plans_refused.labels(error.code).inc()
                log.warning("plan refused: %s (%s)", error, source)
            else:
                self._apply(plan)

    def _apply(self, plan: AdaptationPlan) -> None:
        changed: set[str] = set()
        if plan.decision == "apply":
            sizes = {server.name: server.maxmemory_bytes for server in plan.servers}
            before = self._actuator.targets()
            try:
                self._actuator.set_targets(sizes, f"cycle {plan.cycle}")
            except ValueError as error:
                self._metrics.plans_refused.labels("over_budget").inc()
                log.warning("plan refused: over_budget: %s", error)
                return
            changed = {name for name in sizes if before[name] != sizes[name]}
        with self._store.update() as state:
            state.changed_at_seconds = {
                **state.changed_at_seconds,
                **dict.fromkeys(changed, time.time()),
            }
            state.applied(plan.cycle)
        self.last_plan = plan
        self.cycles += 1
        self._metrics.plans.labels(plan.decision, reason_code(plan.reason)).inc()
        _log_decision(plan)


def _log_decision(plan: AdaptationPlan) -> None:
    # A plan that keeps all sizes promises nothing, one to go back is made because promises were not
    # kept, and not every planner predicts.
    promises = plan.decision == "apply" and not plan.reason.startswith("back:")
    ratio = plan.predicted_gain_ratio if promises else None
    gain = "" if ratio is None else f", predicted gain {100 * ratio:.2f} %"
    sizes = ", ".join(
        f"{server.name} {format_size(server.maxmemory_before_bytes)} -> "
        f"{format_size(server.maxmemory_bytes)} ({server.reason})"
        for server in plan.servers
    )
    log.info(
        "plan: cycle %d, %s%s, by %s with a gap of %.2f %%, reason %s: %s",
        plan.cycle,
        plan.decision,
        gain,
        plan.method,
        100 * plan.optimality_gap,
        plan.reason,
        sizes,
    )
