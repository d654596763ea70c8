"""A server as it is in truth, without one: its memory, its settings, and what befalls it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from sidecar.servers.server_reading import TENACITY, ServerReading

MIB = 1 << 20
BASELINE_BYTES = MIB
_FILLS_BYTES_A_SECOND = 40 * MIB
_EVICTS_BYTES_A_SECOND = 200 * MIB
_PAGES_BYTES_A_SECOND = 50 * MIB
# A server without a limit takes in no more than this.
_DEMAND_BYTES = 96 * MIB
_KNOBS = {
    TENACITY: "10",
    "activedefrag": "no",
    "active-defrag-ignore-bytes": "100mb",
    "active-defrag-cycle-us": "1000",
    "hz": "10",
}


@dataclass
class ModelServer:
    """Clients fill it as fast as it takes them in; above its limit it evicts, if it may.

    Attributes:
        maxmemory_bytes: 0 is no limit.
        starts: how often it has been started; tells its processes apart.
        refuses: the sidecar's user may not CONFIG SET.
        delay_seconds: how much later replies come; ``math.inf``: never.
        answered_late: its last answer took longer than anybody waits for, as after a hang.
        late: what was sent while it hung.
        pinned_bytes: that cannot be evicted, beside ``BASELINE_BYTES``.
    """

    name: str
    maxmemory_bytes: int = 0
    evicts: bool = True
    is_alive: bool = True
    hangs: bool = False
    refuses: bool = False
    delay_seconds: float = 0.0
    answered_late: bool = False
    pinned_bytes: int = 0
    used_bytes: int = BASELINE_BYTES
    rss_bytes: int = 8 * MIB
    starts: int = 1
    knobs: dict[str, str] = field(default_factory=lambda: dict(_KNOBS))
    late: list[Callable[[], None]] = field(default_factory=list)

    @property
    def limit_bytes(self) -> float:
        """The most that it may take: infinite without a limit, nothing if it is dead."""
        if not self.is_alive:
            return 0
        return self.maxmemory_bytes or math.inf

    @property
    def is_as_it_was(self) -> bool:
        """Whether nothing of a shrink is left."""
        return self.knobs == _KNOBS

    def kill(self) -> None:
        """Its memory is free, and nobody hears what was sent to it."""
        self.is_alive = self.hangs = False
        self.late.clear()

    def hang(self) -> None:
        """If it is alive."""
        self.hangs = self.is_alive

    def wake(self) -> None:
        """Go on, with what came meanwhile."""
        self.hangs = False
        late, self.late = self.late, []
        for apply_transition in late:
            apply_transition()

    def start(self, maxmemory_bytes: int) -> None:
        """As a new process, with the settings of its own file."""
        if self.is_alive:
            return
        self.maxmemory_bytes = maxmemory_bytes
        self.evicts, self.is_alive, self.hangs = True, True, False
        self.pinned_bytes, self.used_bytes, self.rss_bytes = 0, BASELINE_BYTES, 8 * MIB
        self.starts += 1
        self.knobs = dict(_KNOBS)

    def live(self, seconds: float) -> None:
        """Fill, evict, and give pages back, for so long."""
        if not self.is_alive or self.hangs:
            return
        most = min(self.limit_bytes, _DEMAND_BYTES)
        if self.used_bytes < most:
            taken_in = int(_FILLS_BYTES_A_SECOND * seconds)
            self.used_bytes = int(min(most, self.used_bytes + taken_in))
        elif self.evicts:
            least = max(most, BASELINE_BYTES + self.pinned_bytes)
            freed = int(_EVICTS_BYTES_A_SECOND * seconds)
            self.used_bytes = int(min(self.used_bytes, max(least, self.used_bytes - freed)))
        given_back = int(_PAGES_BYTES_A_SECOND * seconds)
        self.rss_bytes = max(self.used_bytes + 7 * MIB, self.rss_bytes - given_back)

    def take(self, settings: dict[str, str]) -> None:
        """CONFIG SET."""
        for knob, value in settings.items():
            if knob == "maxmemory":
                self.maxmemory_bytes = int(value)
            elif knob in self.knobs:
                self.knobs[knob] = value

    def reading(self, at_seconds: float) -> ServerReading:
        """What INFO and CONFIG GET say."""
        return ServerReading(
            run_id=f"{self.name}-{self.starts}",
            instance=self.starts,
            role="master",
            maxmemory_bytes=self.maxmemory_bytes,
            maxmemory_policy="allkeys-lru" if self.evicts else "noeviction",
            maxmemory_samples=5,
            lfu_log_factor=10,
            lfu_decay_time_minutes=1,
            counted_bytes=self.used_bytes,
            baseline_bytes=BASELINE_BYTES,
            unevictable_bytes=BASELINE_BYTES + self.pinned_bytes,
            rss_bytes=self.rss_bytes,
            keyspace_hits=0,
            keyspace_misses=0,
            keys=1000,
            keys_with_ttl=0,
            average_ttl_seconds=0.0,
            at_seconds=at_seconds,
            config=dict(self.knobs),
        )
