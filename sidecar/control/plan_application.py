"""Judges a plan's document, and hands its sizes to the actuator or keeps it as a recommendation."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from sidecar.base.metrics import Metrics, reason_code
from sidecar.config.node import SidecarConfig
from sidecar.control.enforcement import Enforcement
from sidecar.control.history import History
from sidecar.control.order import OrderRefusedError
from sidecar.control.plan_announcement import (
    decision_words,
    entry_details,
    log_decision,
    sizes_words,
)
from sidecar.plans.plan_check import PlanRefusedError, check_plan
from sidecar.plans.plan_figures import with_own_figures
from sidecar.plans.plan_gain import PlanGain
from sidecar.plans.plan_harm import check_harm, check_keeping, check_ranges
from sidecar.servers.sizes.shrink_guard import Asked, Sizes
from sidecar.state.state_store import StateStore
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.words import reason_words
from solver_lambda.planning.decision import must_move
from solver_lambda.planning.size_ranges import is_little_known

log = logging.getLogger(__name__)


# Codes of why sizes in force cannot stay (``must_move``) for which no plan has to wait.
_MUST_CODES = ("bounds", "no_limit", "over_budget")
# People are told of such refusals until a plan passes: somebody may be forging plans.
_HARM_CODES = ("out_of_range", "harmful", "wasteful", "keeps_what_must_move")


class PlanApplication:
    """Takes plans from whichever thread brings them.

    ``lock`` keeps them apart from observations and orders: a plan is judged by what was asked last.
    ``asked`` has the observation of a cycle, as it was made here.

    Attributes:
        cycles: plans that passed every check, also those that keep all sizes.
        last_plan: the last of them.
        last_gain: what that gains.
        taken_at_seconds: Unix time of that.
        not_carried_out_because: why it was only noted, for people; ``None`` if it was carried out,
            or had nothing to carry out.
        overtaken_by: the order that has changed sizes since it was taken, for people.
        problem: that the last one would have done harm, for people; ``None``: it would not.
        last_refusal: Unix time, and for people which plan and why; ``None``: none since the start.
        on_carried_out: told of each plan whose sizes are now wanted, of those in force, and of
            those that were wanted before.
        on_recommended: told of each other one.
    """

    def __init__(
        self,
        config: SidecarConfig,
        store: StateStore,
        lock: threading.RLock,
        enforcement: Enforcement,
        metrics: Metrics,
        history: History,
        asked: Callable[[int], Asked],
    ) -> None:
        self.config = config
        self.cycles = 0
        self.last_plan: AdaptationPlan | None = None
        self.last_gain = PlanGain(None, None)
        self.taken_at_seconds = self._first_at_seconds = 0.0
        self.not_carried_out_because: str | None = None
        self.overtaken_by: str | None = None
        self.problem: str | None = None
        self.last_refusal: tuple[float, str] | None = None
        self._source = ""
        self.on_carried_out: Callable[[AdaptationPlan, Sizes, Sizes], None] = lambda *_: None
        self.on_recommended: Callable[[AdaptationPlan], None] = lambda _plan: None
        self._made_with = config.servers
        self._rules = self._rules_of(config)
        self._store = store
        self._lock = lock
        self._enforcement = enforcement
        self._metrics = metrics
        self._history = history
        self._asked = asked

    @staticmethod
    def _rules_of(config: SidecarConfig) -> tuple[object, object]:
        return config.planning, config.limits

    @property
    def changes_sizes(self) -> bool:
        """Whether the last one was carried out, and does."""
        plan = self.last_plan
        moves = plan is not None and plan.decision == "apply"
        return moves and self.not_carried_out_because is None

    def take(self, document: bytes, source: str) -> bool:
        """Judge a plan's document and carry it out; return whether it was believed. A refusal is
        counted and logged."""
        try:
            plan = AdaptationPlan.loads(document, source)
            self._check(plan)
            asked = self._seen_for(plan)
            plan = with_own_figures(plan, asked)
            # It may take a while, so without the lock.
            if plan.decision == "apply":
                check_harm(_sizes(plan), asked)
            else:
                check_keeping(asked)
            with self._lock:
                self._check(plan)
                return self._take(plan, asked, source)
        except DocumentError as error:
            self._count_refusal("malformed", f"malformed: {error}")
        except PlanRefusedError as error:
            self._refused(error, source)
        return False

    def _check(self, plan: AdaptationPlan) -> None:
        with self._lock:
            check_plan(
                plan,
                self._store.now,
                self.config.node,
                now_seconds=time.time(),
                maximum_age_seconds=self.config.controller.maximum_plan_age_seconds,
            )

    def _seen_for(self, plan: AdaptationPlan) -> Observation:
        """Return what we saw when we asked for it, if it keeps to that. Raises PlanRefusedError."""
        asked = self._asked(plan.cycle)
        if asked is None:
            words = f"what was seen in cycle {plan.cycle} is not known any more"
            raise PlanRefusedError("forgotten", words)
        if plan.decision == "apply":
            check_ranges(_sizes(plan), asked)
        return asked

    def _refused(self, error: PlanRefusedError, source: str) -> None:
        self._count_refusal(error.code, f"{error} ({source})")
        if error.code in _HARM_CODES:
            self.problem = f"a plan was refused: {error}: who can write plans, or makes them?"

    def _count_refusal(self, code: str, words: str) -> None:
        self.last_refusal = time.time(), words
        self._metrics.plans_refused.labels(code).inc()
        log.warning("plan refused: %s", words)

    def refuse_other_than(self, cycle: int | None) -> None:
        """Refuse if the last plan is not of this cycle; ``None``: any. Raises OrderRefusedError."""
        last = self.last_plan.cycle if self.last_plan else "none"
        if cycle not in (None, last):
            raise OrderRefusedError(f"not plan {cycle}: the last plan is {last}; see `spreds plan`")

    def carry_out_recommended(self) -> str:
        """Carry out the last plan, which was only noted; what that does, for people.

        Raises:
            OrderRefusedError: there is none, or it does not fit what is now.
        """
        with self._lock:
            plan = self.last_plan
            if plan is None:
                raise OrderRefusedError("there is no plan yet")
            if plan.decision == "keep":
                words = reason_words(plan.reason)
                raise OrderRefusedError(f"the last plan keeps all sizes: {words}")
            if self.not_carried_out_because is None:
                words = "the last plan is carried out already"
                if self.overtaken_by:
                    words += (
                        f", and sizes have changed since ({self.overtaken_by}): wait for the next"
                    )
                raise OrderRefusedError(words)
            age_seconds = time.time() - plan.observation_made_at_seconds
            if age_seconds > self.config.controller.maximum_plan_age_seconds:
                raise OrderRefusedError("the last plan is too old: wait for the next one")
            now = self._store.now.targets_bytes
            for server in plan.servers:
                is_same = now[server.name] == server.maxmemory_before_bytes
                if not is_same and self._enforcement.has_limit(server.name):
                    raise OrderRefusedError(
                        f"{server.name} has another size than when the plan was made: wait for "
                        "the next one"
                    )
            if why := self._enforcement.objection_to(plan, self._made_with):
                raise OrderRefusedError(f"{why}: wait for the next plan")
            if self._rules != self._rules_of(self.config):
                raise OrderRefusedError(
                    "[planning] or [limits] are others than when the plan was made: wait for the "
                    "next one"
                )
            try:
                self._set_targets(plan, self._seen_for(plan))
            except PlanRefusedError as error:
                raise OrderRefusedError(f"the plan cannot be carried out: {error}") from error
            self.not_carried_out_because = self.overtaken_by = None
            self._note(plan, None)
            known = f"; {self.last_gain.known}" if self.last_gain.known else ""
            return f"carrying out plan {plan.cycle}: {sizes_words(plan)}{known}"

    def _take(self, plan: AdaptationPlan, asked: Observation, source: str) -> bool:
        """Take a plan that passed every check. Raises PlanRefusedError: it does not fit what is
        now."""
        objection = None
        if plan.decision == "apply":
            # The plan's own reason does not count: anybody can write one.
            must = (must_move(asked) or "").partition(":")[0] in _MUST_CODES
            control = self._store.now.control
            objection = control.objection(self.config.mode, time.time(), must=must)
            if objection is None:
                self._set_targets(plan, asked)
        self.problem = None
        known = {
            one.name
            for one in asked.servers
            if one.keep_reason is None and not is_little_known(one, asked)
        }
        with self._store.update() as state:
            state.applied(plan.cycle, set() if objection else known)
        self.last_plan, self._made_with = plan, self.config.servers
        self._rules = self._rules_of(self.config)
        self.taken_at_seconds = time.time()
        self._first_at_seconds = self._first_at_seconds or self.taken_at_seconds
        is_early = self.taken_at_seconds - self._first_at_seconds <= asked.cycle_seconds
        self.last_gain = PlanGain.of(plan, asked, is_early=is_early)
        self.not_carried_out_because, self.overtaken_by = objection, None
        self.cycles += 1
        self._metrics.plans.labels(plan.decision, reason_code(plan.reason)).inc()
        if plan.decision == "keep" or objection is not None:
            self.on_recommended(plan)
        self._source = source
        self._note(plan, objection)
        return True

    def _set_targets(self, plan: AdaptationPlan, asked: Observation) -> None:
        """Set a plan's sizes. Raises PlanRefusedError."""
        sizes = _sizes(plan)
        in_force = self._enforcement.sizes_in_force()
        before = self._enforcement.sizes_to_come_back_to()
        contested = self._enforcement.contested() & before.keys()
        wanted = self._store.now.targets_bytes
        try:
            self._enforcement.move(sizes, f"cycle {plan.cycle}", asked)
        except ValueError as error:
            raise PlanRefusedError("over_budget", str(error)) from error
        changed = [name for name in sizes if wanted.get(name) != sizes[name]]
        with self._store.update() as state:
            state.changed_at_seconds = {
                **state.changed_at_seconds,
                **dict.fromkeys(changed, time.time()),
            }
            state.control = replace(state.control, before_plan_bytes=before)
        # A size that is set by hand and put back is no size from before.
        had = {name: min(size, before[name] or size) for name, size in in_force.items()}
        had |= {name: before[name] for name in contested}
        self.on_carried_out(plan, had, before)

    def _note(self, plan: AdaptationPlan, objection: str | None) -> None:
        carried_out = plan.decision == "apply" and objection is None
        details = entry_details(plan, carried_out, self.last_gain)
        self._history.add("plan", decision_words(plan, objection, self.last_gain), **details)
        log_decision(plan, objection, self.last_gain, self._source)


def _sizes(plan: AdaptationPlan) -> dict[str, int]:
    return {server.name: server.maxmemory_bytes for server in plan.servers}
