"""Carries out operators' orders."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sidecar.base.log_setup import ALWAYS, EVENT
from sidecar.config.node import SidecarConfig
from sidecar.control.enforcement import Enforcement
from sidecar.control.history import History, sizes_since
from sidecar.control.order import NOT_ON_FILE, Order, OrderRefusedError
from sidecar.control.plan_application import PlanApplication
from sidecar.control.plan_rollback import PlanRollback
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.known_listeners import believe
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.sizes_in_words import ordered_sizes
from sidecar.state.control_state import ControlState, OrderOrigin, Pause
from sidecar.state.room_made import CLEARLY_LESS
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration, format_size

log = logging.getLogger(__name__)


def tell_given_back(
    names: Collection[str],
    state: SidecarState,
    readings: Mapping[str, ServerReading],
    changed: Callable[[str, int, int, str], None],
) -> str:
    """Say where servers go whose size was set by hand, once they take part in plans again.
    ``changed`` is told of each."""
    ways = []
    for name in names:
        reading, wanted = readings.get(name), state.targets_bytes.get(name)
        has = reading.maxmemory_bytes if reading and state.control.sets_sizes else 0
        if has and wanted and has != wanted:
            way = "gets more as it fills" if wanted > has else "gives as others fill"
            changed(name, has, wanted, f"its size was set by hand, and is given back: it {way}")
            ways.append(f"{name} goes from {format_size(has)} to {format_size(wanted)}")
    if ways:
        return f"; {', '.join(ways)}, as memory is handed over"
    if state.room is not None:
        return "; what others gave for it goes back to them"
    lends = [
        name
        for name in names
        if (one := readings.get(name)) and one.counted_bytes < CLEARLY_LESS * one.maxmemory_bytes
    ]
    if lends:
        others = f"what {', '.join(lends)} does not use of its size goes to whoever fills it"
        return f"; {others}, and the next plan decides"
    return "; nothing changes until the next plan"


# A pause that cannot end is tried to be ended again.
_AGAIN_SECONDS = 60.0


class OrderHandler:
    """Carries out one sidecar's orders. ``lock`` keeps them apart from plans and observations.

    Attributes:
        resized: told that other sizes are planned now, by an order or the end of a pause.
    """

    def __init__(
        self,
        config: SidecarConfig,
        store: StateStore,
        lock: threading.RLock,
        actuator: Actuator,
        enforcement: Enforcement,
        plans: PlanApplication,
        verification: PlanRollback,
        history: History,
    ) -> None:
        self.config = config
        self._store = store
        self._lock = lock
        self._actuator = actuator
        self._enforcement = enforcement
        self._plans = plans
        self._verification = verification
        self._history = history
        self.resized: Callable[[], None] = lambda: None
        self._pause_ends_at = math.inf

    def order(self, order: Order) -> str:
        """Carry an order out; say what was done, for people. Raises OrderRefusedError."""
        if order.node not in (None, self.config.node):
            raise OrderRefusedError(
                f"it is for node {order.node}, and this is the sidecar of {self.config.node}"
            )
        with self._lock:
            before, had = self._in_force(), self._store.now.targets_bytes
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
            has_effect = self._in_force() != before
            if self._store.now.targets_bytes != before[-1]:
                self.resized()
        if not self._store.is_saved:
            done += f" {NOT_ON_FILE}"
        why = f" ({order.why})" if order.why else ""
        words = f"{order.what}{why}: {done}"
        # Orders that change nothing may come in floods. One that changes something is always told.
        marked = ALWAYS if has_effect else EVENT
        log.info("%s by %s%s: %s", order.what, order.by, why, done, extra=marked)
        if has_effect:
            kind = "rollback" if order.what == "rollback" else "order"
            sizes = sizes_since(had, self._wanted_by(order))
            self._history.add(kind, words, by=order.by, order=order.to_json(), **sizes)
        else:
            self._history.add_without_effect(words, by=order.by, order=order.to_json())
        return done

    def _in_force(self) -> tuple[object, ...]:
        """Return what an order can change, apart from who ordered it and when."""
        control = self._control
        return (
            *(control.mode, control.file_mode, control.wait, control.server_waits, control.held),
            *(control.engaged, control.before_plan_bytes, control.restoring_bytes),
            control.pause and control.pause.until_seconds is None,
            *(self._store.now.listeners, self._store.now.targets_bytes),
        )

    def _wanted_by(self, order: Order) -> dict[str, int]:
        """Return the sizes an order wants: those before SPREDS where it goes back to these."""
        wanted = self._store.now.targets_bytes
        if order.to != "installation":
            return wanted
        return wanted | {name: size for name, size in self._control.installed_bytes.items() if size}

    def tick(self, now_seconds: float) -> None:
        """End a pause whose time is over, by the clock or by how long it was; to be repeated."""
        pause = self._control.pause
        if pause is None or pause.until_seconds is None:
            return
        if now_seconds < pause.until_seconds and time.monotonic() < self._pause_ends_at:
            return
        with self._lock:
            try:
                before = self._store.now.targets_bytes
                done = self._end_pause()
                if self._store.now.targets_bytes != before:
                    self.resized()
            except DocumentError as error:
                # It waits until the file, or a server's size, is another one.
                self._change(pause=replace(pause, until_seconds=now_seconds + _AGAIN_SECONDS))
                self._pause_ends_at = math.inf
                log.warning("the pause is over, but goes on: %s", error)
                return
        log.info("%s", words := f"the pause by {pause.by} is over: {done}")
        self._history.add("order", words, **sizes_since(before, self._store.now.targets_bytes))

    @property
    def _control(self) -> ControlState:
        return self._store.now.control

    def _change(self, **changes: object) -> None:
        with self._store.update() as state:
            state.control = replace(state.control, **changes)  # type: ignore[arg-type]

    def _set_mode(self, mode: str, order: Order) -> None:
        told = OrderOrigin(order.by, time.time(), order.why)
        with self._store.update() as state:
            state.control = state.control.ordered(mode, self.config.mode, told)

    def _refuse_if_paused(self) -> None:
        if pause := self._control.pause:
            raise OrderRefusedError(f"paused by {pause.by}: resume first")

    def _apply(self, order: Order) -> str:
        self._refuse_if_paused()
        self._plans.refuse_other_than(order.plan)
        return self._plans.carry_out_recommended()

    def _apply_from_now_on(self, order: Order) -> str:
        self._refuse_if_paused()
        self._plans.refuse_other_than(order.plan)
        went = ""
        try:
            done = f"{self._plans.carry_out_recommended()}; "
        except OrderRefusedError as error:
            done = f"{error}; "
            if self._plans.not_carried_out_because is not None:
                self._plans.not_carried_out_because = str(error)  # it was the mode so far
            if not self._control.engaged:
                went = self._enforcement.begin()
        self._set_mode("apply", order)
        return f"{done}plans are carried out from now on{went}"

    def _recommend(self, order: Order) -> str:
        if sizes := self._enforcement.stop():
            self._overtake(order)
        stopped = f"; the plan under way stops: {ordered_sizes(sizes)}" if sizes else ""
        self._set_mode("recommend", order)
        return f"no more plans are carried out; sizes stay as they are{stopped}"

    def _pause(self, order: Order) -> str:
        until, self._pause_ends_at = None, math.inf
        if order.for_seconds is not None:
            until = time.time() + order.for_seconds
            self._pause_ends_at = time.monotonic() + order.for_seconds
        self._change(pause=Pause(order.by, time.time(), order.why, until))
        self._actuator.watch()
        self._verification.disturbed("SPREDS was paused")
        length = (
            f"for {format_duration(order.for_seconds)}" if order.for_seconds else "until resume"
        )
        return f"nothing is set {length}"

    def _end_pause(self) -> str:
        """End the pause; say what is done now. Raises DocumentError; then it goes on."""
        control = self._control
        keeps = control.engaged or control.mode_with(self.config.mode) == "apply"
        went = self._enforcement.begin() if keeps else ""
        self._change(pause=None)
        return f"sizes are kept again{went}" if keeps else "nothing is set, as before it"

    def _resume(self, order: Order) -> str:
        control = self._control
        if order.listener is not None:
            servers = {server.name: server for server in self.config.servers}
            server = servers.get(order.server or "")
            return believe(self._store, server, order.listener, order.uid)
        if order.server is not None:
            waits, held = dict(control.server_waits), dict(control.held)
            if not (held.pop(order.server, None) or waits.pop(order.server, None)):
                raise OrderRefusedError(
                    self._actuator.errors().get(order.server)
                    or f"{order.server} is not held at a size set by hand, and does not wait"
                )
            waits.pop(order.server, None)
            self._change(held=held, server_waits=waits)
            return f"{order.server} takes part in plans again{self._given_back([order.server])}"
        self._change(held={}, wait=None, server_waits={})
        ended = []
        if control.pause is not None:
            try:
                ended.append(f"the pause is over, {self._end_pause()}")
            except DocumentError:
                self._change(
                    held=control.held, wait=control.wait, server_waits=control.server_waits
                )
                raise
        if control.wait is not None:
            ended.append("no plan has to wait")
        if kept := [*control.held, *(control.server_waits.keys() - control.held.keys())]:
            take = "takes" if len(kept) == 1 else "take"
            went = self._given_back(control.held)
            ended.append(f"{', '.join(kept)} {take} part in plans again{went}")
        return "; ".join(ended) or "there was nothing to resume"

    def _given_back(self, names: Collection[str]) -> str:
        changed = self._enforcement.changed
        return tell_given_back(names, self._store.now, self._actuator.readings, changed)

    def _rollback(self, order: Order) -> str:
        self._refuse_if_paused()
        before = self._control.before_plan_bytes
        if order.to == "installation" or 0 in before.values():
            return self._give_back(order)
        if not self._control.engaged or not before:
            raise OrderRefusedError(
                "there is no plan to roll back, or it was rolled back: "
                "'spreds rollback --to-installation' goes back to before SPREDS"
            )
        sizes = self._enforcement.back_to(before, "rolled back")
        self._overtake(order)
        self._change(before_plan_bytes={})
        self._set_mode("recommend", order)
        near = "" if sizes == before else f", as near as {self._limits()} allow"
        until = "no more plans are carried out until 'spreds apply'"
        return f"going back to {ordered_sizes(sizes, self._has())}{near}; {until}"

    def _has(self) -> dict[str, int]:
        """Return what servers have now; 0 is no limit."""
        return {name: one.maxmemory_bytes for name, one in self._actuator.readings.items()}

    def _overtake(self, order: Order) -> None:
        """Note that the sizes are no longer those of the last plan."""
        self._verification.disturbed(f"{order.what} was ordered")
        self._plans.overtaken_by = f"{order.what} by {order.by}"

    def _limits(self) -> str:
        """Say what keeps sizes from being had, for people."""
        kept = ", ".join(self._actuator.kept())
        return (
            f"budget, bounds and what cannot be given another size now ({kept})"
            if kept
            else "budget and bounds"
        )

    def _give_back(self, order: Order) -> str:
        had = self._has()
        sizes, missing = self._enforcement.give_back()
        self._overtake(order)
        self._set_mode("recommend", order)
        # Also of those that keep what they have.
        total_bytes = sum({**self._enforcement.sizes_in_force(), **sizes}.values())
        budget_bytes = self._actuator.budget.bytes
        sizes = {name: size for name, size in sizes.items() if name not in missing}
        went = f"going back to the sizes from before SPREDS, {ordered_sizes(sizes, had)}"
        done = went if sizes else "nothing is set"
        above = (
            f"; together {format_size(total_bytes)}, above the budget of "
            f"{format_size(budget_bytes)}"
            if total_bytes > budget_bytes
            else ""
        )
        waits = "".join(f"; {name}: {why}" for name, why in missing.items())
        return f"{done}{above}{waits}; nothing more is set until 'spreds apply'"
