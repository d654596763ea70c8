"""Tells what a server really takes, and whether it still gives back what is above its limit."""

from __future__ import annotations

import logging
import math
import time

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.transitions import ServerState
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

# Resident memory beside the keys': the program itself, and usual fragmentation.
RSS_ALLOWANCE_BYTES = 16 << 20
RSS_ALLOWANCE_RATIO = 1.10
# Evictions free hundreds of megabytes a second.
STUCK_SECONDS = 60.0
PROGRESS_RATIO = 0.1
# Whatever it says meanwhile.
LONGEST_FREEING_SECONDS = 600.0


class HeldMemory:
    """Tells what one server still holds after shrinks.

    Attributes:
        was_at_limit: it has come down to its limit since the last shrink. What it holds above it
            now is its clients': a script writes much before anything is evicted for it.
    """

    def __init__(self, name: str, memory: MemoryConfig, metrics: Metrics) -> None:
        self._name = name
        self._memory = memory
        self._metrics = metrics
        self._rss_until = 0.0
        self._pages_bytes = math.inf
        # It was waited for in vain, and has not come back since. Memory is handed over in many
        # shrinks: it is not waited for again after each of them.
        self._rss_stays = False
        self._least_bytes: float | None = None
        self._began_at = self._freed_at = 0.0
        self._stuck = False
        self.was_at_limit = False

    def note_shrink(self) -> None:
        """Note that a shrink is sent: resident memory is waited for, from now on."""
        self.was_at_limit = False
        self._rss_until = time.monotonic() + self._memory.rss_wait_seconds

    def held_bytes(self, reading: ServerReading, *, shrinks: bool) -> int:
        """Return ``used_memory``, or more while resident memory that a shrink should free is there.

        ``shrinks``: a shrink is still to come.
        """
        resident = (reading.rss_bytes - RSS_ALLOWANCE_BYTES) / RSS_ALLOWANCE_RATIO
        # Pages of keys come with keys. No shrink frees others, as scripts leave them behind, which
        # any client may run, again and again.
        resident = self._pages_bytes = min(resident, max(self._pages_bytes, reading.counted_bytes))
        gated = bool(self._memory.rss_wait_seconds) and (shrinks or self._rss_until > 0)
        if not gated:
            return reading.counted_bytes
        if resident <= reading.maxmemory_bytes:
            self._rss_stays = False
            if not shrinks:
                self._rss_until = 0.0
        if self._rss_stays or resident <= reading.counted_bytes:
            return reading.counted_bytes
        if not shrinks and time.monotonic() >= self._rss_until:
            self._rss_until = 0.0
            if resident > reading.maxmemory_bytes:
                self._rss_stays = True
                self._metrics.rss_waits_given_up.labels(self._name).inc()
                log.warning(
                    "server %s: resident memory stays at %s after a shrink to %s; "
                    "growth goes by used_memory now",
                    self._name,
                    format_size(reading.rss_bytes),
                    format_size(reading.maxmemory_bytes),
                )
            return reading.counted_bytes
        return int(resident)

    def is_stuck(self, state: ServerState) -> bool:
        """Whether it has freed less than a tenth of what it holds above its limit in
        ``STUCK_SECONDS``, or has not come to it in ``LONGEST_FREEING_SECONDS``.

        It stays stuck, whatever is planned meanwhile, until it frees some or is at its limit.
        """
        now = time.monotonic()
        if not state.is_freeing:
            self._least_bytes, self._stuck, self.was_at_limit = None, False, True
            return False
        if self._least_bytes is None:
            self._least_bytes, self._began_at, self._freed_at = state.held_bytes, now, now
        is_endless = now - self._began_at > LONGEST_FREEING_SECONDS
        above_bytes = self._least_bytes - state.maxmemory_bytes
        freed_bytes = self._least_bytes - state.held_bytes
        if freed_bytes > 0 and freed_bytes >= PROGRESS_RATIO * above_bytes:
            self._least_bytes, self._freed_at = state.held_bytes, now
            self._stuck = self._stuck and is_endless
        if not self._stuck and (is_endless or now - self._freed_at > STUCK_SECONDS):
            self._stuck = True
            self._metrics.shrinks_stuck.labels(self._name).inc()
            log.warning(
                "server %s holds %s with a maxmemory of %s and frees nothing; "
                "only growth that needs its memory waits for it",
                self._name,
                format_size(state.held_bytes),
                format_size(state.maxmemory_bytes),
            )
        return self._stuck
