"""A server as it is in truth, without one: its memory, its settings, and what befalls it.

What must hold in a model of a node, looked at with each command that a server carries out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sidecar.servers.connection.server_reading import TENACITY, ServerReading
from sidecar.servers.connection.unevictable import least_maxmemory_bytes
from sidecar.servers.sizes.transitions import SLACK_BYTES, SLACK_RATIO

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
        """Kill the server: its memory is free, and nobody hears what was sent to it."""
        self.is_alive = self.hangs = False
        self.late.clear()

    def hang(self) -> None:
        """Hang, if it is alive."""
        self.hangs = self.is_alive

    def wake(self) -> None:
        """Go on, with what came meanwhile."""
        self.hangs = False
        late, self.late = self.late, []
        for apply_transition in late:
            apply_transition()

    def start(self, maxmemory_bytes: int) -> None:
        """Start as a new process, with the settings of its own file."""
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
        """Take settings as CONFIG SET does."""
        for knob, value in settings.items():
            if knob == "maxmemory":
                self.maxmemory_bytes = int(value)
            elif knob in self.knobs:
                self.knobs[knob] = value

    def reading(self, at_seconds: float) -> ServerReading:
        """Return what INFO and CONFIG GET say."""
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


@dataclass
class _Known:
    """What the sidecar that runs can know of a server, and nothing else.

    Attributes:
        limit_bytes: the most that may be in force: as last read, or sent to it since; ``None``: it
            has not been read yet.
        used_bytes: as last read; of two readings in one step the lesser, for the sidecar goes by
            what it read when the step began.
        evicts: as last read.
        least_bytes: with less it would refuse writes; of two readings in one step the greater.
    """

    limit_bytes: float | None = None
    used_bytes: int = 0
    evicts: bool = True
    least_bytes: int = 0
    in_step: int = -1


class ModelRules:
    """Notes what was broken; never stops anybody. ``budget_bytes`` is M.

    Attributes:
        broken: in words, in order.
    """

    def __init__(self, servers: Sequence[ModelServer], budget_bytes: int) -> None:
        self.broken: list[str] = []
        self._servers = servers
        self._budget_bytes = budget_bytes
        self._known = {server.name: _Known() for server in servers}
        self._life = self._step = 0
        self._most_bytes = 0.0

    def total_bytes(self) -> float:
        """Return the sum of all limits, in truth."""
        return sum(server.limit_bytes for server in self._servers)

    def forget(self) -> None:
        """The sidecar is dead: the next one knows nothing."""
        self._known = {server.name: _Known() for server in self._servers}
        self._life += 1

    @property
    def life(self) -> int:
        """Return the number of the sidecar, from 0."""
        return self._life

    def seen(
        self,
        name: str,
        limit_bytes: float,
        used_bytes: int,
        unevictable_bytes: int,
        *,
        evicts: bool,
    ) -> None:
        """The sidecar has read this of a server."""
        known = self._known[name]
        least = least_maxmemory_bytes(0, unevictable_bytes)
        if known.in_step == self._step:
            used_bytes = min(used_bytes, known.used_bytes)
            least = max(least, known.least_bytes)
        self._known[name] = _Known(limit_bytes, used_bytes, evicts, least, in_step=self._step)
        if limit_bytes != known.limit_bytes:  # not by the sidecar: from there it may only fall
            self._most_bytes = sum(self._claim(server) for server in self._servers)

    def begin_step(self) -> None:
        """The sidecar begins to read them all."""
        self._step += 1

    def judge(self, server: ModelServer, size_bytes: float) -> None:
        """The sidecar sends it this limit. What may be in force is counted from now on, for the
        server may take it late, or without a word."""
        known = self._known[server.name]
        if known.limit_bytes is None:
            self._break(f"{server.name} was given {_words(size_bytes)}, and had not been read")
        elif size_bytes > known.limit_bytes:
            # Who would refuse writes does not wait for what others hold above their limits.
            claim = self._limit if size_bytes <= known.least_bytes else self._claim
            others = sum(claim(one) for one in self._servers if one is not server)
            if others + size_bytes > max(self._budget_bytes, self._most_bytes):
                self._break(
                    f"{server.name} was given {_words(size_bytes)} instead of "
                    f"{_words(known.limit_bytes)}, beside {_words(others)} of the others"
                )
        elif size_bytes < known.limit_bytes and not server.evicts:
            if server.answered_late and known.evicts:
                return  # it was so when it was looked at; who is slow is not asked once more
            self._break(f"{server.name} does not evict and was cut to {_words(size_bytes)}")

    def sent(self, server: ModelServer, size_bytes: float) -> None:
        """It may take it, at some time."""
        known = self._known[server.name]
        known.limit_bytes = max(size_bytes, known.limit_bytes or 0)

    def took(self, server: ModelServer, size_bytes: float, life: int) -> None:
        """It carries out what a sidecar has sent it, in that life."""
        if life == self._life:
            self._known[server.name].limit_bytes = size_bytes

    def _limit(self, server: ModelServer) -> float:
        return self._known[server.name].limit_bytes or 0

    def _claim(self, server: ModelServer) -> float:
        """Return what nobody else may be given, as far as the sidecar can know."""
        known = self._known[server.name]
        if known.limit_bytes is None:
            return 0
        limit, held = known.limit_bytes, min(known.used_bytes, server.used_bytes)
        return held if held > limit * (1 + SLACK_RATIO) + SLACK_BYTES else limit

    def _break(self, words: str) -> None:
        self.broken.append(words)


def _words(size_bytes: float) -> str:
    return f"{size_bytes / MIB:.3f} MiB"
