"""Carries out plans: brings each server to its target size as it fills, and keeps it there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.servers.reading_window import ReadingWindow
from sidecar.servers.redis_server import RedisServer, ServerDownError, ServerRefusedError
from sidecar.servers.server_lock import ServerTakenError
from sidecar.servers.server_reading import ServerReading
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.sizes_in_words import sizes_in_words
from sidecar.servers.transitions import (
    EnterShrinkMode,
    Grow,
    LeaveShrinkMode,
    ServerState,
    Shrink,
    Transition,
    resolve,
)
from sidecar.servers.waypoints import Waypoints
from sidecar.state.node_lock import NodeLockedError
from sidecar.state.state_store import StateStore

log = logging.getLogger(__name__)

BUSY_SECONDS = 0.02
IDLE_SECONDS = 1.0
# A server that restarts has the maxmemory of its own file until it is seen.
LOOK_SECONDS = 0.05
# When the sidecar stops: for the call that is under way, and for leaving all servers in order.
STOP_SECONDS = 1.0
LEAVE_SECONDS = 0.5


class Actuator:
    """Reads the servers again and again, and carries out the transitions that ``resolve`` allows.

    ``start`` runs it in a thread of its own, so that samples are received meanwhile; every public
    method may be called from any thread.

    ``gradual``: memory is handed over as it is filled; otherwise the targets count at once.

    Attributes:
        waypoints: on the way to the targets.
        latest: what ``states`` said in the last step: no wait for a server that hangs.
        latest_least_bytes: then, what ``least_bytes`` says.
        too_small: then, the servers that can keep no key in the sizes that they are to have.
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
    ) -> None:
        self._budget_bytes = memory.budget_bytes
        self.waypoints = Waypoints(memory.budget_bytes, gradual=gradual)
        self._watches = {
            server.name: ServerWatch(server, memory, sampling, store, metrics) for server in servers
        }
        self._store = store
        self._metrics = metrics
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.latest: list[ServerState] = []
        self.latest_least_bytes: dict[str, int] = {}
        self.too_small: set[str] = set()
        self._settled = threading.Event()
        self._purpose = ""
        self._told = self._is_there = False
        self._failure: Exception | None = None

    def start(
        self, sizes_bytes: Mapping[str, int], targets_bytes: Mapping[str, int] | None = None
    ) -> None:
        """Begin to bring the servers to these sizes, and from there to the targets, if any."""
        self.waypoints.begin(sizes_bytes)
        self.set_targets(targets_bytes or sizes_bytes, "initial sizes")
        self._thread = threading.Thread(target=self._run, name="actuator", daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """Begin to stop: nothing more is asked of the servers; returns at once."""
        self._stop.set()
        self._wake.set()

    def stop(self) -> None:
        """Finish the current transition, put gentle servers back to normal, turn samplers off.

        A server that does not answer is not waited for: what it needs is on file.
        """
        self.hurry()
        if self._thread:
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                log.warning("a server hangs: the servers could not be left in order")
                return
        leaving = [
            threading.Thread(target=watch.leave, name=name, daemon=True)
            for name, watch in self._watches.items()
        ]
        for thread in leaving:
            thread.start()
        until = time.monotonic() + LEAVE_SECONDS
        for thread in leaving:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                log.warning("server %s could not be left in order: it hangs", thread.name)

    def set_targets(self, targets_bytes: Mapping[str, int], purpose: str) -> None:
        """Give servers new sizes; those not named keep their targets.

        Raises:
            ValueError: all targets together exceed the budget; nothing changes.
        """
        with self._lock:
            with self._store.update() as state:
                targets = {**state.targets_bytes, **targets_bytes}
                state.targets_bytes = {name: targets[name] for name in self._watches}
                state.settled = False
                if sum(state.targets_bytes.values()) > self._budget_bytes:
                    raise ValueError(f"{purpose}: the targets exceed the budget")
            self.waypoints.retarget(self._store.now.targets_bytes)
            self._purpose = purpose
            self._told = self._is_there = False
            self._settled.clear()
        self._wake.set()

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen by itself to reach the targets, until a server fills."""
        return self._settled.is_set()

    def claim(self) -> None:
        """Make sure that no other sidecar controls any of the servers; changes nothing on them.

        Raises:
            NodeLockedError: another one does, or two names lead to one server.
        """
        with self._lock:
            for name, watch in self._watches.items():
                try:
                    watch.claim()
                except ServerTakenError as error:
                    raise NodeLockedError(f"server {name}: {error}") from error

    def read_all(self) -> dict[str, ServerReading | None]:
        """What every server says now; ``None`` for one that does not answer, or after ``hurry``."""
        with self._lock:
            return {
                name: None if self._stop.is_set() else watch.read()
                for name, watch in self._watches.items()
            }

    def targets(self) -> dict[str, int]:
        """The planned sizes in bytes."""
        return dict(self._store.now.targets_bytes)

    def under_way(self) -> dict[str, int]:
        """The sizes to which servers are on the way, as far as they can be had; in bytes."""
        with self._lock:
            return self.waypoints.under_way(self.states())

    def states(self) -> list[ServerState]:
        """Of all servers, as last seen, with their targets."""
        targets = self._store.now.targets_bytes
        with self._lock:
            return [replace(state, target_bytes=targets[state.name]) for state in self._steps()]

    def _steps(self) -> list[ServerState]:
        """The same, with the sizes that they are to have now."""
        sizes = self.waypoints.sizes_bytes
        return [watch.state(sizes[name]) for name, watch in self._watches.items()]

    def kept(self) -> dict[str, str]:
        """Why a server cannot be given another size now, in an observation's words."""
        with self._lock:
            states = self._steps()
            found = {state.name: self._watches[state.name].keep_reason(state) for state in states}
            return {name: reason for name, reason in found.items() if reason}

    def windows(self) -> dict[str, ReadingWindow]:
        """What was read of each server since the last call."""
        with self._lock:
            return {name: watch.take_window() for name, watch in self._watches.items()}

    def least_bytes(self) -> dict[str, int]:
        """What servers that evict need at least to go on working, as far as it is known."""
        with self._lock:
            found = {name: watch.least_bytes() for name, watch in self._watches.items()}
            return {name: least for name, least in found.items() if least is not None}

    def run_ids(self) -> dict[str, str]:
        """Of the servers' processes, as last seen."""
        with self._lock:
            return {name: watch.run_id for name, watch in self._watches.items() if watch.run_id}

    def check(self) -> None:
        """Raise what ended the actuator's thread, if anything did."""
        if self._failure is not None:
            raise self._failure

    def step(self) -> None:
        """Read the servers once and carry out what is allowed now."""
        with self._lock:
            for watch in self._watches.values():
                if self._stop.is_set():
                    return
                if watch.read() is not None:
                    watch.try_again()
            needs = {name: watch.need() for name, watch in self._watches.items()}
            self.waypoints.follow(self.states(), needs)
            self.latest = self.states()
            self.latest_least_bytes = self.least_bytes()
            self.too_small = {name for name, watch in self._watches.items() if watch.is_too_small}
            moved = False
            states = self._steps()
            for transition in resolve(states, self._budget_bytes):
                moved = True
                if self._stop.is_set() or not self._carry_out(transition):
                    break
            self._note(moved, any(state.reachable and state.still_frees for state in states))

    def _note(self, moved: bool, freeing: bool) -> None:
        if moved:
            self._settled.clear()
            return
        is_there = self.waypoints.is_there(self.latest)
        if freeing or (self._settled.is_set() and is_there == self._is_there):
            return
        with self._store.update() as state:
            state.settled = is_there
        # While memory is handed over there is not a line for each portion.
        if is_there or not self._told:
            log.info("%s: %s", self._purpose, sizes_in_words(self.states(), self.under_way()))
        self._told, self._is_there = True, is_there
        self._settled.set()

    def _carry_out(self, transition: Transition) -> bool:
        watch = self._watches[transition.name]
        try:
            match transition:
                case EnterShrinkMode():
                    # What is normal must be on file before it changes. If it cannot be, the shrink
                    # does not wait: memory that is missing hurts all servers, for as long as it is.
                    if not watch.save_settings():
                        self._metrics.shrinks_without_mode.labels(watch.name).inc()
                        return True
                    watch.enter_shrink_mode()
                case LeaveShrinkMode():
                    watch.leave_shrink_mode()
                case Shrink(to_bytes=to_bytes) | Grow(to_bytes=to_bytes):
                    if isinstance(transition, Shrink) and not watch.evicts_now():
                        return False
                    watch.set_maxmemory(to_bytes)
                    self._metrics.config_set_maxmemory.labels(watch.name).inc()
        except ServerRefusedError as error:
            self._metrics.transitions_failed.labels(watch.name).inc()
            watch.refused(error)
            return False
        except ServerDownError:
            self._metrics.transitions_failed.labels(watch.name).inc()
            return False
        self._metrics.transitions.labels(watch.name).inc()
        log.debug("%s", transition)
        return True

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._wake.clear()
                self.step()
                self._wait(IDLE_SECONDS if self.settled else BUSY_SECONDS)
        except Exception as error:  # noqa: BLE001 - passed on: the sidecar must not go on without
            self._failure = error

    def _wait(self, seconds: float) -> None:
        """Until then, or until there are new targets or a server comes back."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._wake.wait(min(left, LOOK_SECONDS)):
                return
            with self._lock:
                if any(watch.comes_back() for watch in self._watches.values()):
                    return
