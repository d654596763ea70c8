"""What is known of one server between readings, for the resolver; carries out its transitions."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping

from sidecar.config.node import MemoryConfig, SamplingConfig
from sidecar.counters import Counters
from sidecar.servers.redis_server import (
    GENTLE,
    TENACITY,
    USUAL,
    RedisServer,
    ServerDownError,
    ServerReading,
    ServerRefusedError,
)
from sidecar.servers.transitions import ServerState
from sidecar.state import Replaced, SidecarState

log = logging.getLogger(__name__)

# A server that is down is asked again soon, but not so often that the others wait for it: a
# question that is refused costs nothing, one to a server that hangs costs its time limit.
LEAST_RETRY_SECONDS = 0.05
RETRY_RATIO = 3.0
# Resident memory that is no memory of keys: the program itself, and usual fragmentation.
RSS_ALLOWANCE_BYTES = 16 << 20
RSS_ALLOWANCE_RATIO = 1.10


class ServerWatch:
    """One server: last reading, what may be in force, and how it is being treated.

    Not for use by two threads at once.
    """

    def __init__(
        self,
        server: RedisServer,
        memory: MemoryConfig,
        sampling: SamplingConfig,
        state: SidecarState,
        counters: Counters,
    ) -> None:
        self._server = server
        self._memory = memory
        self._sampling = sampling
        self._state = state
        self._counters = counters
        self._last: ServerReading | None = None
        self._reachable = True
        self._asked_at = self._retry_at = 0.0
        # The most that may be in force: set before a growth is sent, so that a lost reply is safe.
        self._at_most_bytes: float | None = None
        self._rss_until = 0.0
        self._sampler: str | None = None
        self._cannot_defrag = False

    @property
    def name(self) -> str:
        return self._server.name

    @property
    def run_id(self) -> str | None:
        """Of the process that was last seen."""
        return self._last.run_id if self._last else None

    def read(self) -> ServerReading | None:
        """What it says now, or ``None`` if it does not answer (asked again after a while)."""
        if not self._reachable and time.monotonic() < self._retry_at:
            return None
        self._asked_at = time.monotonic()
        try:
            reading = self._server.read()
        except (ServerDownError, ServerRefusedError) as error:
            self._lose(error)
            return None
        self._compare(reading)
        is_new = self._last is None or self._last.run_id != reading.run_id
        self._reachable = True
        self._last = reading
        self._at_most_bytes = reading.maxmemory_bytes or math.inf
        self._forget_another_process(reading)
        self._sample(reading, is_new)
        return reading

    def comes_back(self) -> bool:
        """Whether it is, just now, a process that has not been read yet, or an answer at last."""
        if self._reachable and not (self._last and self._server.hung_up()):
            return False
        return self.read() is not None

    def state(self) -> ServerState:
        """For the resolver."""
        target_bytes = self._state.targets_bytes[self.name]
        if self._last is None or self._at_most_bytes is None:
            # Never seen: when it comes, it is brought to its target before anyone grows.
            return ServerState(self.name, target_bytes, 0, target_bytes, reachable=False)
        shrinks = self._at_most_bytes > target_bytes
        return ServerState(
            self.name,
            self._at_most_bytes,
            self._held_bytes(self._last, shrinks=shrinks),
            target_bytes,
            reachable=self._reachable,
            # What was noted may not have been done.
            gentle=self._is_gentle(self._last) and (self._last.tenacity == 0 or not shrinks),
        )

    def note_normal(self) -> None:
        """Note in the state what ``be_gentle`` will replace; the state must be saved between."""
        if self._last is None or self.name in self._state.replaced:
            return
        knobs = [TENACITY] if self._cannot_defrag else GENTLE
        config = {TENACITY: str(self._memory.eviction_tenacity), **self._last.config}
        settings = {key: config[key] for key in knobs if key in config}
        self._state.replaced = {
            **self._state.replaced,
            self.name: Replaced(self._last.run_id, settings),
        }

    def be_gentle(self) -> None:
        """Before a shrink, after ``note_normal``. Raises as ``RedisServer``."""
        gentle = {key: GENTLE[key] for key in self._normal()}
        if len(gentle) > 1:
            try:
                self._set(gentle)
                return
            except ServerRefusedError as error:
                self._cannot_defrag = True
                log.info("server %s: no active defragmentation: %s", self.name, error)
                self._forget_normal()
                self.note_normal()
        self._set({TENACITY: GENTLE[TENACITY]})

    def be_normal(self) -> None:
        """After a shrink. Raises as ``RedisServer``."""
        self._set(self._normal())
        self._forget_normal()

    def set_maxmemory(self, size_bytes: int) -> None:
        """Shrink or grow. Raises as ``RedisServer``."""
        before = self._at_most_bytes
        if before is None or size_bytes > before:
            self._at_most_bytes = size_bytes
        else:
            self._rss_until = time.monotonic() + self._memory.rss_wait_seconds
        self._set({"maxmemory": size_bytes})
        self._at_most_bytes = size_bytes

    def leave(self) -> None:
        """When the sidecar stops: nothing half-applied stays, and the sampler is off."""
        if self._last is None or not self._reachable:
            return
        try:
            if self._is_gentle(self._server.read()):
                self.be_normal()
            if self._sampler is not None:
                self._server.stop_sampling(self._sampler)
        except (ServerDownError, ServerRefusedError) as error:
            log.warning("server %s could not be left in order: %s", self.name, error)
        self._server.close()

    def _set(self, settings: Mapping[str, object]) -> None:
        self._asked_at = time.monotonic()
        try:
            self._server.set(settings)
        except ServerDownError as error:
            self._lose(error)
            raise

    def _is_gentle(self, reading: ServerReading) -> bool:
        # Without a note it was left so, by a sidecar that died and kept no state.
        left = reading.tenacity == 0 and self._memory.eviction_tenacity != 0
        return self.name in self._state.replaced or left

    def _normal(self) -> Mapping[str, str]:
        replaced = self._state.replaced.get(self.name)
        if replaced is not None:
            return replaced.settings
        normal = {TENACITY: str(self._memory.eviction_tenacity)}
        config = self._last.config if self._last else {}
        if all(config.get(key) == GENTLE[key] for key in ("activedefrag", "hz")):
            log.warning(
                "server %s was left in a shrink, and nothing tells how it was before: "
                "it gets the usual %s",
                self.name,
                ", ".join(f"{key} {value}" for key, value in USUAL.items()),
            )
            return {**normal, **USUAL}
        return normal

    def _forget_normal(self) -> None:
        self._state.replaced = {
            name: item for name, item in self._state.replaced.items() if name != self.name
        }

    def _forget_another_process(self, reading: ServerReading) -> None:
        """A process that has started since has the settings of its own file."""
        replaced = self._state.replaced.get(self.name)
        if replaced is not None and replaced.run_id != reading.run_id:
            self._forget_normal()

    def _held_bytes(self, reading: ServerReading, *, shrinks: bool) -> int:
        gated = bool(self._memory.rss_wait_seconds) and (shrinks or self._rss_until > 0)
        if not gated:
            return reading.used_memory_bytes
        resident = (reading.rss_bytes - RSS_ALLOWANCE_BYTES) / RSS_ALLOWANCE_RATIO
        if not shrinks and resident <= reading.maxmemory_bytes:
            self._rss_until = 0.0
        if resident <= reading.used_memory_bytes:
            return reading.used_memory_bytes
        if not shrinks and time.monotonic() >= self._rss_until:
            self._rss_until = 0.0
            if resident > reading.maxmemory_bytes:
                self._counters.add("rss_waits_given_up")
                log.warning(
                    "server %s: resident memory stays at %d bytes after a shrink to %d; "
                    "growth goes by used_memory now",
                    self.name,
                    reading.rss_bytes,
                    reading.maxmemory_bytes,
                )
            return reading.used_memory_bytes
        return int(resident)

    def _lose(self, error: Exception) -> None:
        now = time.monotonic()
        self._retry_at = now + max(LEAST_RETRY_SECONDS, RETRY_RATIO * (now - self._asked_at))
        if self._reachable:
            self._reachable = False
            self._counters.add("servers_lost")
            log.warning("server %s does not answer, the others go on: %s", self.name, error)

    def _compare(self, reading: ServerReading) -> None:
        last = self._last
        if not self._reachable:
            log.info("server %s answers again", self.name)
        if last is None:
            if not reading.evicts:
                log.warning(
                    "server %s does not evict (noeviction, or a replica): it keeps its size",
                    self.name,
                )
            return
        if last.run_id != reading.run_id:
            self._counters.add("servers_restarted")
            log.warning(
                "server %s restarted with maxmemory %d; its planned size is put back",
                self.name,
                reading.maxmemory_bytes,
            )
        elif self._reachable and (reading.maxmemory_bytes or math.inf) != self._at_most_bytes:
            self._counters.add("foreign_changes")
            log.warning(
                "server %s: somebody set maxmemory to %d; its planned size is put back",
                self.name,
                reading.maxmemory_bytes,
            )

    def _sample(self, reading: ServerReading, is_new: bool) -> None:
        self._sampler = reading.sampler_prefix
        try:
            if self._sampler is None and is_new:
                log.warning("server %s has no sampler (patch or module)", self.name)
            elif self._server.start_sampling(reading, self._sampling):
                log.info("server %s samples to %s", self.name, self._sampling.endpoint)
        except (ServerDownError, ServerRefusedError) as error:
            self._counters.add("sampler_refused")
            if is_new:
                log.warning("server %s: the sampler took no settings: %s", self.name, error)
