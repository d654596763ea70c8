"""The hand that carries out plans: brings each server to its target, and keeps it there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from sidecar.config.node import MemoryConfig, SamplingConfig
from sidecar.counters import Counters
from sidecar.servers.redis_server import (
    RedisServer,
    ServerDownError,
    ServerReading,
    ServerRefusedError,
)
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.transitions import BeGentle, BeNormal, Grow, Shrink, Transition, resolve
from sidecar.state import SidecarState
from sidecar.units import format_size

log = logging.getLogger(__name__)

BUSY_SECONDS = 0.02
IDLE_SECONDS = 1.0
# A server that restarts has the maxmemory of its own file until it is seen.
LOOK_SECONDS = 0.05
# A shrink that frees nothing for so long no longer holds up the next observation.
STUCK_SECONDS = 120.0


class Actuator:
    """Reads the servers again and again, and carries out the transitions that ``resolve`` allows.

    ``start`` runs it in a thread of its own, so that samples are received meanwhile; every public
    method may be called from any thread.
    """

    def __init__(
        self,
        servers: Sequence[RedisServer],
        memory: MemoryConfig,
        sampling: SamplingConfig,
        state: SidecarState,
        counters: Counters,
        save: Callable[[], None],
    ) -> None:
        self._budget_bytes = memory.budget_bytes
        self._watches = {
            server.name: ServerWatch(server, memory, sampling, state, counters)
            for server in servers
        }
        self._state = state
        self._counters = counters
        self._save = save
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._progress_at = time.monotonic()
        self._settled = threading.Event()
        self._purpose = ""
        self._failure: Exception | None = None

    def start(self, targets_bytes: Mapping[str, int]) -> None:
        """Begin to bring the servers to these sizes."""
        self.set_targets(targets_bytes, "initial sizes")
        self._thread = threading.Thread(target=self._run, name="actuator")
        self._thread.start()

    def stop(self) -> None:
        """Finish the current transition, put gentle servers back to normal, turn samplers off."""
        self._stop.set()
        self._wake.set()
        if self._thread:
            self._thread.join()
        with self._lock:
            for watch in self._watches.values():
                watch.leave()

    def set_targets(self, targets_bytes: Mapping[str, int], purpose: str) -> None:
        """Give servers new sizes; those not named keep their targets.

        Raises:
            ValueError: all targets together exceed the budget; nothing changes.
        """
        with self._lock:
            targets = {**self._state.targets_bytes, **targets_bytes}
            targets = {name: targets[name] for name in self._watches}
            if sum(targets.values()) > self._budget_bytes:
                raise ValueError(f"{purpose}: the targets exceed the budget")
            self._state.targets_bytes = targets
            self._state.settled = False
            self._purpose = purpose
            self._progress_at = time.monotonic()
            self._settled.clear()
            self._save()
        self._wake.set()

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen by itself to reach the targets."""
        return self._settled.is_set()

    def read_all(self) -> dict[str, ServerReading | None]:
        """What every server says now; ``None`` for one that does not answer."""
        with self._lock:
            return {name: watch.read() for name, watch in self._watches.items()}

    def targets(self) -> dict[str, int]:
        """The planned sizes in bytes."""
        with self._lock:
            return dict(self._state.targets_bytes)

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
                watch.read()
            moved = False
            states = [watch.state() for watch in self._watches.values()]
            for transition in resolve(states, self._budget_bytes):
                if self._stop.is_set() or not self._carry_out(transition):
                    moved = True
                    break
                moved = True
            freeing = any(state.is_freeing for state in states if state.reachable)
            self._note(moved, freeing)

    def _note(self, moved: bool, freeing: bool) -> None:
        now = time.monotonic()
        if moved:
            self._progress_at = now
            self._settled.clear()
            return
        stuck = freeing and now - self._progress_at > STUCK_SECONDS
        if self._settled.is_set() or (freeing and not stuck):
            return
        if stuck:
            self._counters.add("shrink_stuck")
            log.warning("%s: a shrink frees no memory; growth that needs it waits", self._purpose)
        self._settled.set()
        self._state.settled = True
        self._save()
        log.info("%s: servers are at their sizes: %s", self._purpose, self._describe())

    def _describe(self) -> str:
        return ", ".join(
            f"{name} {format_size(watch.state().maxmemory_bytes)}"
            for name, watch in self._watches.items()
        )

    def _carry_out(self, transition: Transition) -> bool:
        watch = self._watches[transition.name]
        try:
            match transition:
                case BeGentle():
                    # What is normal must be on file before it changes.
                    watch.note_normal()
                    self._save()
                    watch.be_gentle()
                case BeNormal():
                    watch.be_normal()
                    self._save()
                case Shrink(to_bytes=to_bytes) | Grow(to_bytes=to_bytes):
                    watch.set_maxmemory(to_bytes)
                    self._counters.add("config_set_maxmemory")
        except (ServerDownError, ServerRefusedError) as error:
            self._counters.add("transitions_failed")
            log.warning("%s failed: %s", transition, error)
            return False
        self._counters.add("transitions")
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
