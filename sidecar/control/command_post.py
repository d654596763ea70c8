"""Carries out operators' orders."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

from sidecar.config.node import SidecarConfig
from sidecar.control.engagement import Engagement
from sidecar.control.history import History
from sidecar.control.order import Order, OrderRefusedError
from sidecar.control.plan_application import PlanApplication
from sidecar.servers.actuator import Actuator
from sidecar.state.control_state import ControlState, Pause, Told
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration, format_size

log = logging.getLogger(__name__)


class CommandPost:
    """Of one sidecar. ``lock`` keeps orders apart from plans and observations."""

    def __init__(
        self,
        config: SidecarConfig,
        store: StateStore,
        lock: threading.RLock,
        actuator: Actuator,
        engagement: Engagement,
        plans: PlanApplication,
        history: History,
    ) -> None:
        self.config = config
        self._store = store
        self._lock = lock
        self._actuator = actuator
        self._engagement = engagement
        self._plans = plans
        self._history = history

    def order(self, order: Order) -> str:
        """Carry it out; what was done, for people. Raises OrderRefusedError."""
        with self._lock:
            try:
                done = {
                    "apply": self._apply,
                    "apply_from_now_on": self._apply_from_now_on,
                    "recommend": self._recommend,
                    "pause": self._pause,
                    "resume": self._resume,
                    "rollback": self._rollback,
                }[order.what](order)
            except (DocumentError, ValueError) as error:
                raise OrderRefusedError(str(error)) from error
        why = f" ({order.why})" if order.why else ""
        log.info("%s by %s%s: %s", order.what, order.by, why, done)
        kind = "rollback" if order.what == "rollback" else "order"
        self._history.add(kind, f"{order.what}{why}: {done}", by=order.by, order=order.to_json())
        return done

    def tick(self, now_seconds: float) -> None:
        """Again and again: end a pause whose time is over."""
        pause = self._control.pause
        if pause is None or pause.until_seconds is None or now_seconds < pause.until_seconds:
            return
        try:
            self.order(Order("resume", "spreds", f"the pause by {pause.by} is over"))
        except OrderRefusedError as error:
            # Until the file, or a server's size, is another one.
            self._change(pause=replace(pause, until_seconds=now_seconds + 60))
            log.warning("the pause is over, but goes on: %s", error)

    @property
    def _control(self) -> ControlState:
        return self._store.now.control

    def _change(self, **changes: object) -> None:
        with self._store.update() as state:
            state.control = replace(state.control, **changes)  # type: ignore[arg-type]

    def _set_mode(self, mode: str, order: Order) -> None:
        told = Told(order.by, time.time(), order.why)
        with self._store.update() as state:
            state.control = state.control.ordered(mode, self.config.mode, told)

    def _refuse_if_paused(self) -> None:
        if pause := self._control.pause:
            raise OrderRefusedError(f"paused by {pause.by}: resume first")

    def _apply(self, _order: Order) -> str:
        self._refuse_if_paused()
        return self._plans.carry_out_recommended()

    def _apply_from_now_on(self, order: Order) -> str:
        self._refuse_if_paused()
        try:
            done = f"{self._plans.carry_out_recommended()}; "
        except OrderRefusedError as error:
            done = f"{error}; "
            if not self._control.engaged:
                self._engagement.begin()
        self._set_mode("apply", order)
        return f"{done}plans are carried out from now on"

    def _recommend(self, order: Order) -> str:
        self._set_mode("recommend", order)
        return "no more plans are carried out; sizes stay as they are"

    def _pause(self, order: Order) -> str:
        until = None if order.for_seconds is None else time.time() + order.for_seconds
        self._change(pause=Pause(order.by, time.time(), order.why, until))
        self._actuator.watch()
        length = (
            f"for {format_duration(order.for_seconds)}" if order.for_seconds else "until resume"
        )
        return f"nothing is set {length}"

    def _resume(self, order: Order) -> str:
        control = self._control
        if order.server is not None and order.server not in control.held:
            raise OrderRefusedError(f"{order.server} is not held: nobody resized it by hand")
        names = [order.server] if order.server else list(control.held)
        held = {name: hold for name, hold in control.held.items() if name not in names}
        if order.server:
            self._change(held=held)
            return f"{order.server} takes part in plans again"
        ended = [
            *(["the pause is over"] if control.pause else []),
            *(
                ["plans are carried out again"]
                if control.wait and control.wait.until_seconds
                else []
            ),
            *([f"{', '.join(names)} take part in plans again"] if names else []),
        ]
        self._change(held=held, pause=None, wait=None)
        if control.pause and (control.engaged or control.mode_with(self.config.mode) == "apply"):
            try:
                self._engagement.begin()
            except DocumentError:
                self._change(held=control.held, pause=control.pause, wait=control.wait)
                raise
        return "; ".join(ended) or "there was nothing to resume"

    def _rollback(self, order: Order) -> str:
        self._refuse_if_paused()
        control = self._control
        if order.to == "installation" or 0 in control.before_plan_bytes.values():
            return self._give_back(order)
        if not control.engaged or not control.before_plan_bytes:
            raise OrderRefusedError("no plan has been carried out: there is nothing to roll back")
        self._engagement.back_to(control.before_plan_bytes, "rollback")
        self._change(before_plan_bytes={})
        self._set_mode("recommend", order)
        return (
            f"back to {_sizes(control.before_plan_bytes)}; no more plans are carried out until "
            "'spreds apply'"
        )

    def _give_back(self, order: Order) -> str:
        failed = self._engagement.give_back()
        self._set_mode("recommend", order)
        sizes = {
            name: size for name, size in self._control.installed_bytes.items() if name not in failed
        }
        not_done = "".join(f"; {name} did not take its size: {why}" for name, why in failed.items())
        return (
            f"back to the sizes from before SPREDS, {_sizes(sizes)}{not_done}; nothing is set "
            "until 'spreds apply'"
        )


def _sizes(sizes_bytes: dict[str, int]) -> str:
    return ", ".join(
        f"{name} {format_size(size) if size else 'no limit'}" for name, size in sizes_bytes.items()
    )
