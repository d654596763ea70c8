"""Carries out plans: brings each server to its target size as it fills, and keeps it there."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.config.node import ServerConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.servers.apply_transitions import (
    apply_in_order,
    due,
    growths_beside,
    resize_returned_server,
)
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.convergence import Convergence
from sidecar.servers.manual_resizes import ManualResizes, note_manual_resizes
from sidecar.servers.orderly_stop import leave_in_order
from sidecar.servers.restoring import end_shrink_modes, go_on_restoring
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.side_by_side import answers, ask_all, one_comes_back
from sidecar.servers.sizes.fallen_budget import FallenBudget
from sidecar.servers.sizes.intermediate_sizes import IntermediateSizes
from sidecar.servers.sizes.memory_budget import MemoryBudget
from sidecar.servers.sizes.needed_shares import bounded_needs
from sidecar.servers.sizes.observe_only import want_what_is_found
from sidecar.servers.sizes.pace import PORTION_SECONDS, Pace
from sidecar.servers.sizes.primaries import tell_primaries
from sidecar.servers.sizes.reserved_memory import with_counted
from sidecar.servers.sizes.shrink_guard import Asked, ShrinkGuard, Sizes
from sidecar.servers.sizes.sizes_in_words import sizes_in_words
from sidecar.servers.sizes.transitions import ServerState
from sidecar.servers.stepping_thread import SteppingThread
from sidecar.servers.watched_servers import WatchedServers
from sidecar.state.state_store import Note, StateStore, note_nothing
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

BUSY_SECONDS = 0.02
IN_VAIN_SECONDS = 0.25  # where servers take nothing of what they are to have
IDLE_SECONDS = 1.0
LOOK_SECONDS = 0.05  # until it is seen, a server that restarts has the maxmemory of its own file
STOP_SECONDS = 2.0  # when the sidecar stops: for the call that is under way


class Actuator(WatchedServers):
    """Reads the servers again and again, and carries out the transitions that ``resolve`` allows.

    ``start`` runs it in a thread of its own; every public method may be called from any thread.
    ``gradual``: memory is handed over as it is filled; otherwise the targets count at once.
    ``manual_resizes`` is told of sizes that somebody else sets.

    Attributes:
        looks_on: it sets no ``maxmemory``: after ``watch``, until ``engage``.
        budget, configs: what all sizes may sum to; of the servers, a reload may bring others.
        intermediate_sizes, pace, guard: on the way to the targets, how fast, and which may be had.
        convergence: whether they are there, and what for.
        at_seconds, readings: of the last step, Unix time and who answered.
        latest, latest_least_bytes: what ``states`` and ``least_bytes`` said then: without a wait.
        too_small: then, the servers that can keep no key in the sizes that they are to have.
        fallen: remembers the sizes from before the budget fell.
        fitted: sizes before, sizes after and why, for each time that the budget fell or rose.
    """

    def __init__(
        self,
        servers: Sequence[RedisServer],
        memory: MemoryConfig,
        sampling: SamplingConfig,
        store: StateStore,
        metrics: Metrics,
        *,
        gradual: bool = True,
        manual_resizes: ManualResizes | None = None,
    ) -> None:
        self.configs: Sequence[ServerConfig] = [server.config for server in servers]
        super().__init__(
            {one.name: ServerWatch(one, memory, sampling, store, metrics) for one in servers}
        )
        self.fallen = FallenBudget(store, metrics)
        least = lambda: self.fallen.least_bytes(self.configs)  # noqa: E731
        fell_from = sum(store.now.before_fall_bytes.values())
        self.budget = MemoryBudget(memory, metrics, len(servers), least, fell_from)
        self._manual_resizes = manual_resizes
        self.intermediate_sizes = IntermediateSizes(self.budget.bytes, gradual=gradual)
        self._store, self._metrics = store, metrics
        self._one_comes_back = partial(one_comes_back, self._watches.values(), self._lock)
        steps = (lambda: self.step(), self._pause_seconds, self._one_comes_back)
        self._thread = SteppingThread("actuator", *steps, LOOK_SECONDS)
        self._stop = self._thread.stopping
        self.looks_on = self._begins = self._is_in_vain = False
        self.at_seconds = time.time()
        self.readings: dict[str, ServerReading] = {}
        self.latest: list[ServerState] = []
        self.latest_least_bytes: dict[str, int] = {}
        self.too_small: set[str] = set()
        self.fitted: deque[tuple[Sizes, Sizes, str]] = deque(maxlen=100)
        self.convergence, self.pace, self.guard = Convergence(store), Pace(), ShrinkGuard(metrics)

    def start(self) -> None:  # begin to step
        self._thread.start()

    def engage(
        self,
        sizes_bytes: Sizes,
        targets_bytes: Sizes,
        purpose: str,
        asked: Asked = None,
        note: Note = note_nothing,
    ) -> None:
        """Have these sizes, and go on from there to the targets. Raises as ``set_targets``."""
        with self._lock:
            if not self._store.now.control.engaged:
                note_manual_resizes(self._watches, None, counts=False)  # set before: no matter
            self.set_targets(targets_bytes, purpose, asked, note)
            self.intermediate_sizes.begin(sizes_bytes)
            self.looks_on = self._begins = False

    def watch(self) -> None:
        """Set nothing from now on, whatever is planned."""
        with self._lock:
            self.looks_on, self._begins = True, False
            self.guard.rest()
            self.intermediate_sizes.begin({**self.targets(), **self.intermediate_sizes.sizes_bytes})
            self.convergence.rest()

    def restore(self) -> dict[str, str]:  # look on, after go_on_restoring, which goes on
        with self._lock:
            self.watch()
            return go_on_restoring(self._watches, self._store, self._metrics, self._stop)

    def hurry(self) -> None:  # begin to stop: nothing more is asked of the servers
        self._thread.hurry()

    def stop(self) -> None:
        """Finish the current transition, leave all that answer in order; the rest is on file."""
        self.hurry()
        if not self._thread.join(STOP_SECONDS):
            log.warning("a server hangs: the servers could not be left in order")
            return
        leave_in_order(self._watches.values())

    def set_targets(
        self, targets_bytes: Sizes, purpose: str, asked: Asked = None, note: Note = note_nothing
    ) -> None:
        """Give servers new sizes; those not named keep their targets. ``note`` adds to the state
        what must be saved with them. Raises PlanRefusedError, as ``ShrinkGuard.judge``, and
        ValueError, as ``note``, and if all targets exceed the budget; nothing changes."""
        with self._lock:
            self.guard.judge(targets_bytes, asked)
            with self._store.update() as state:
                note(state)
                targets = {**state.targets_bytes, **targets_bytes}
                targets = state.targets_bytes = {name: targets[name] for name in self._watches}
                state.settled = False
                if sum(targets.values()) > self.budget.bytes:
                    raise ValueError(f"{purpose}: the targets exceed the budget")
                self.guard.expect(targets)
            self.guard.take(targets)
            if asked is not None:
                self.fallen.follow_plan(targets, asked.budget_bytes, self.budget)
            self.intermediate_sizes.retarget(targets)
            self.convergence.depart(purpose, is_by_plan=asked is not None)
        self._thread.wake()

    @property
    def settled(self) -> bool:  # nothing more happens by itself until a server fills
        return self.convergence.is_settled

    def read_all(self) -> dict[str, ServerReading | None]:
        """Return what every server says now; ``None`` for one that does not answer, or after
        ``hurry``."""
        since = ask_all(self._watches.values(), self._lock, self._stop)
        with self._lock:
            found = {name: watch.read_since(since) for name, watch in self._watches.items()}
            self.readings = {name: reading for name, reading in found.items() if reading}
            self._follow_others()
            return found

    def targets(self) -> dict[str, int]:  # planned, as far as they may be had; bytes
        return self.guard.held(self._store.now.targets_bytes, sets_sizes=not self.looks_on)

    def under_way(self) -> dict[str, int]:  # the sizes that come next, as far as can be; bytes
        with self._lock:
            return self.intermediate_sizes.under_way(self.states())

    def states(self) -> list[ServerState]:  # of all servers, as last seen, with their targets
        targets = self.targets()
        with self._lock:
            return [replace(state, target_bytes=targets[state.name]) for state in self._steps()]

    def _steps(self) -> list[ServerState]:  # with the sizes that they are to have now
        sizes = self.intermediate_sizes.sizes_bytes
        states = [watch.state(sizes[name]) for name, watch in self._watches.items()]
        return with_counted(self.sheltered(), states, self.budget.bytes, self.latest_least_bytes)

    def sheltered(self) -> Sequence[ServerConfig]:  # with minima that count for now
        return self.fallen.sheltered(self.configs, self.budget)

    def kept(self) -> dict[str, str]:
        """Say why a server cannot be given another size now, in an observation's words."""
        with self._lock:
            found = {one.name: self._watches[one.name].keep_reason(one) for one in self._steps()}
            return {name: reason for name, reason in found.items() if reason}

    def least_bytes(self) -> dict[str, int]:  # to go on working, as far as it is known and given
        with self._lock:
            known = self._watches.items()
            found = {n: least for n, w in known if (least := w.least_bytes()) is not None}
            return bounded_needs(self.configs, found, self.budget)

    def check(self) -> None:  # raises what ended the actuator's thread, if anything did
        self._thread.check()

    def step(self) -> None:
        """Read the servers once and carry out what is allowed now."""
        with self._lock:
            for watch in answers(self._watches.values()):
                if self._stop.is_set():
                    return
                if not self.looks_on:
                    resize_returned_server(
                        watch, self.intermediate_sizes.sizes_bytes, self._metrics
                    )
            self.at_seconds = time.time()
            tell_primaries(self._watches.values())
            self.readings = {name: w.last for name, w in self._watches.items() if w.last}
            self._follow_others()
            if self.looks_on:
                self._look_on()
            else:
                self._carry_out()
            # At last: it may take as long as a server likes.
            for watch in self._watches.values():
                watch.follow_up(sets_sizes=not self.looks_on)

    def _carry_out(self) -> None:
        needs = {name: watch.need() for name, watch in self._watches.items()}
        self.intermediate_sizes.follow(self.states(), needs)
        self.latest = self.states()
        self.latest_least_bytes = self.least_bytes()
        self.too_small = {name for name, watch in self._watches.items() if watch.is_too_small}
        # Who takes settings slowly comes last: the others' memory may be missing.
        states = sorted(self._paced(), key=lambda one: self._watches[one.name].contact.sets_slowly)
        how = self._watches, self._metrics, self._stop
        applied = apply_in_order(due(states, self.budget), *how)
        done = applied.done
        if applied.failed:
            beside = growths_beside(applied.failed, states, self._steps(), self.budget)
            done |= apply_in_order(beside, *how).done
        self._is_in_vain = applied.moved and not done
        self.convergence.note(
            moved=applied.moved or self.pace.is_waiting,
            freeing=any(state.still_shrinks for state in self.latest),
            is_there=self.intermediate_sizes.is_there(self.latest),
            in_words=lambda: sizes_in_words(self.states(), self.under_way()),
        )

    def _follow_others(self) -> None:
        """Follow sizes set by hand, and the budget: if it falls below what is wanted, all give."""
        counts = not self.looks_on or self._store.now.control.engaged
        note_manual_resizes(self._watches, self._manual_resizes, counts=counts)
        self._look_at_budget()
        self.intermediate_sizes.budget_bytes = budget_bytes = self.budget.bytes
        if self.looks_on or not self.intermediate_sizes.sizes_bytes:
            return
        planned, sizes = self._store.now.targets_bytes, self.intermediate_sizes.sizes_bytes
        known = (self._steps(), self.budget, self.least_bytes(), self.readings)
        found = self.fallen.sizes(self.configs, sizes, *known)
        if found is not None:
            purpose = f"a budget of {format_size(budget_bytes)}"
            self.set_targets(found.targets_bytes, purpose, note=found.note)
            self.intermediate_sizes.begin(found.at_once_bytes)
            self.fitted.append((planned, found.targets_bytes, found.why))

    def look_at_budget(self) -> None:
        """Look at the budget as who sets sizes from now on: what would fit while nobody did is not
        in force."""
        with self._lock:
            self._begins = True  # until it does
            self._look_at_budget()

    def _look_at_budget(self) -> None:
        planned, read = self._store.now.targets_bytes, self.last_seen()
        unread_bytes = sum(size for name, size in planned.items() if name not in read)
        acts = self._begins or not self.looks_on
        self.budget.refresh(list(read.values()), acts=acts, unread_bytes=unread_bytes)

    def _look_on(self) -> None:
        end_shrink_modes(self._watches)
        if (control := self._store.now.control).restoring_bytes and control.pause is None:
            self.restore()
        want_what_is_found(self.readings, self._store, self.intermediate_sizes)
        self.latest = self.states()
        self.convergence.rest()

    def _paced(self) -> Sequence[ServerState]:
        states, least = self._steps(), self.latest_least_bytes
        if not self.intermediate_sizes.gradual:
            return states
        return self.pace.slowed(states, self.readings, least, self.budget.bytes)

    def _pause_seconds(self) -> float:
        waits = self.pace.is_waiting and not self.looks_on
        if waits or self.settled:
            return PORTION_SECONDS if waits else IDLE_SECONDS
        return IN_VAIN_SECONDS if self._is_in_vain and not self.looks_on else BUSY_SECONDS
