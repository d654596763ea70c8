"""A simulated Redis, and all that the sampler of a real one would tell of it."""

from __future__ import annotations

import heapq
from collections.abc import Sized
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.samples.wire_format import Operation
from sidecar.servers.connection.server_reading import ServerReading
from workloads.experiment.gain.server_parts import (
    EvictionOrder,
    ExactLru,
    ExpiryCycle,
    HashTable,
    SampledLru,
)

# What an empty server holds, and what a key takes beside its own bytes; about as Redis 7.0 has it.
BASELINE_BYTES = 900_000
OVERHEAD_BYTES = 72
# Redis' default, and what tells a sidecar that eviction is as good as exact LRU.
REDIS_SAMPLES = 5
EXACT_SAMPLES = 100
BEFORE_READS = -1
# Of Redis' cron, by the default ``hz``, between two ticks of its LRU clock.
_CRONS_A_TICK = 10

IntArray = npt.NDArray[np.int64]
# Of one read, in this order: keys that expired, the read, its fill, and what is evicted for it.
_EXPIRY, _READ, _FILL, _EVICTION = range(4)
_UNKNOWN_MS = -1


@dataclass(frozen=True, eq=False)
class Served:
    """Reads of one server, in order; arrays of shape (n,).

    Attributes:
        hit: which of them.
        lives_seconds: what was left of a hit object's life; ``inf`` without a TTL.
        removed: keys that went, and how: before which read they expired (its place), or after which
            they were evicted; ``BEFORE_READS`` by a smaller size or the cron, before the first one.
        begin_seconds, end_seconds: when they were, evenly.
    """

    keys: IntArray
    hit: npt.NDArray[np.bool_]
    lives_seconds: npt.NDArray[np.float64]
    removed: list[tuple[int, int, Operation]]
    begin_seconds: float
    end_seconds: float


class SimulatedServer:
    """Holds what was read and fits; a miss is filled at once.

    Args:
        sizes_bytes: key and value of each key.
        ttls_seconds: that each key's fill sets, of shape (keys,) or one for all; 0 is none.
        samples: ``maxmemory-samples``; ``EXACT_SAMPLES``: exact LRU.
        lru_clock_seconds: between two ticks of the clock by which keys are evicted.
        beside_bytes: what a Redis holds beyond ``BASELINE_BYTES``, such as its clients' buffers;
            then it also has hash tables, which take memory. It removes a key whose TTL has passed
            when its cron finds it or when it is asked for. ``None``: none of this.

    Attributes:
        used_bytes: of keys, with their overhead, and of what is beside them.
        hits, misses: since the start.
        weights: of each key, with its overhead.
    """

    def __init__(
        self,
        number: int,
        sizes_bytes: npt.NDArray[np.uint32],
        maxmemory: int,
        *,
        ttls_seconds: npt.ArrayLike = 0.0,
        samples: int = EXACT_SAMPLES,
        lru_clock_seconds: float = 1.0,
        beside_bytes: int | None = None,
    ) -> None:
        self.number = number
        self.sizes_bytes = sizes_bytes
        self.maxmemory_bytes = maxmemory
        self.used_bytes = beside_bytes or 0
        self.hits = self.misses = 0
        self.weights: list[int] = (sizes_bytes.astype(np.int64) + OVERHEAD_BYTES).tolist()
        self._ttls: list[float] = np.broadcast_to(ttls_seconds, len(sizes_bytes)).tolist()
        self._has_ttls = bool(np.any(ttls_seconds))
        self._samples = samples
        self._lru_clock_seconds = lru_clock_seconds
        self._held: EvictionOrder = (
            ExactLru() if samples >= EXACT_SAMPLES else SampledLru(samples, number)
        )
        self._expiries: dict[int, float] = {}
        # With the keys that each has: all, and those with a TTL.
        self._tables: list[tuple[HashTable, Sized]] = []
        self._expiry_cycle: ExpiryCycle | None = None
        self._next_cron_seconds = 0.0
        if beside_bytes is not None:
            self._tables = [(HashTable(), self._held), (HashTable(), self._expiries)]
            self._expiry_cycle = ExpiryCycle(len(sizes_bytes), number)
        self._due: list[tuple[float, int]] = []  # a heap: when, which; some are gone by then
        self._removed: list[tuple[int, int, Operation]] = []

    def __len__(self) -> int:
        return len(self._held)

    def read(self, keys: IntArray, begin_seconds: float = 0.0, end_seconds: float = 0.0) -> Served:
        """Read keys, shape (n,), evenly from one time to the other."""
        held, weights = self._held, self.weights
        room = self.maxmemory_bytes - BASELINE_BYTES
        step = (end_seconds - begin_seconds) / max(1, len(keys))
        now = begin_seconds - step / 2
        missed = []
        lives = np.full(len(keys), np.inf)
        self._run_cron(begin_seconds)
        for place, key in enumerate(keys.tolist()):
            now += step
            if self._due and self._due[0][0] <= now:
                self._expire(place, now)
            if self._has_ttls and key in self._expiries:
                if self._expiries[key] > now:
                    lives[place] = self._expiries[key] - now
                else:
                    self._remove_dead(place, key)
            if key not in held:
                missed.append(place)
                has_ttl = bool(self._has_ttls and self._ttls[key])
                for table, had in self._tables[: 1 + has_ttl]:
                    self.used_bytes += table.make_room(len(had), room - self.used_bytes)
                self.used_bytes += weights[key]
                if has_ttl:
                    self._expiries[key] = now + self._ttls[key]
                    if self._expiry_cycle is None:
                        heapq.heappush(self._due, (self._expiries[key], key))
            held.touch(key, int(now / self._lru_clock_seconds))
            if self.used_bytes > room:
                self._evict(place, room)
        hit = np.ones(len(keys), dtype=bool)
        hit[missed] = False
        self.misses += len(missed)
        self.hits += len(keys) - len(missed)
        removed, self._removed = self._removed, []
        return Served(keys, hit, lives, removed, begin_seconds, end_seconds)

    def resize(self, maxmemory_bytes: int) -> None:
        """Do as ``CONFIG SET maxmemory`` does."""
        self.maxmemory_bytes = maxmemory_bytes
        self._evict(BEFORE_READS, max(0, maxmemory_bytes - BASELINE_BYTES))

    def _evict(self, place: int, room_bytes: int) -> None:
        while self.used_bytes > room_bytes and len(self._held):
            key = self._held.pop()
            self.used_bytes -= self.weights[key]
            self._expiries.pop(key, None)
            self._removed.append((place, key, Operation.EVICTION))

    def _expire(self, place: int, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            when, key = heapq.heappop(self._due)
            if self._expiries.get(key) == when:
                self._remove_dead(place, key)

    def _remove_dead(self, place: int, key: int) -> None:
        del self._expiries[key]
        self._held.remove(key)
        self.used_bytes -= self.weights[key]
        self._removed.append((place, key, Operation.EXPIRY))

    def _run_cron(self, now: float) -> None:
        """Run the cron as often as it was due since the last read."""
        for table, had in self._tables:
            self.used_bytes += table.look(len(had))
        while self._expiry_cycle is not None and self._next_cron_seconds <= now:
            self._next_cron_seconds += self._lru_clock_seconds / _CRONS_A_TICK
            for key in self._expiry_cycle.run(self._expiries, now):
                self._remove_dead(BEFORE_READS, key)

    def reading(self, at_seconds: float) -> ServerReading:
        """Return what a sidecar would read of it; ``at_seconds`` is Unix time."""
        counted = BASELINE_BYTES + self.used_bytes
        mean_ttl = float(np.mean(self._ttls)) if self._has_ttls else 0.0
        return ServerReading(
            run_id=f"{self.number:040x}",
            instance=self.number,
            role="master",
            maxmemory_bytes=self.maxmemory_bytes,
            maxmemory_policy="allkeys-lru",
            maxmemory_samples=self._samples,
            lfu_log_factor=10,
            lfu_decay_time_minutes=1,
            counted_bytes=counted,
            baseline_bytes=BASELINE_BYTES - 3_000,
            unevictable_bytes=BASELINE_BYTES - 3_000,
            rss_bytes=counted,
            keyspace_hits=self.hits,
            keyspace_misses=self.misses,
            keys=len(self),
            keys_with_ttl=len(self._expiries),
            average_ttl_seconds=mean_ttl / 2,
            at_seconds=at_seconds,
            config={"spreds-endpoint": "ipc://simulated", "spreds-secret": ""},
        )


class ServerEvents(NamedTuple):
    """All arrays of shape (n,): ``sizes_bytes`` 0 and ``ttls_ms`` -1 where a sampler tells none."""

    keys: IntArray
    operations: npt.NDArray[np.uint8]
    sizes_bytes: npt.NDArray[np.uint32]
    ttls_ms: IntArray
    times_seconds: npt.NDArray[np.float64]


def server_events(
    served: Served, sizes_bytes: npt.NDArray[np.uint32], ttl_seconds: float
) -> ServerEvents:
    """Tell events as a sampler of rate 1 would; sizes by key, the TTL that fills set."""
    count = len(served.keys)
    missed = np.flatnonzero(~served.hit)
    removed_places = np.array([place for place, _, _ in served.removed], dtype=np.int64)
    removed_keys = np.array([key for _, key, _ in served.removed], dtype=np.int64)
    removed_by = np.array([operation for _, _, operation in served.removed], dtype=np.uint8)
    removed_steps = np.where(removed_by == Operation.EXPIRY, _EXPIRY, _EVICTION)
    places = np.concatenate((np.arange(count), missed, removed_places))
    steps = np.concatenate((np.full(count, _READ), np.full(len(missed), _FILL), removed_steps))
    order = np.lexsort((steps, places))
    keys = np.concatenate((served.keys, served.keys[missed], removed_keys))
    reads = np.where(served.hit, Operation.READ_HIT, Operation.READ_MISS).astype(np.uint8)
    fills = np.full(len(missed), Operation.WRITE, np.uint8)
    operations = np.concatenate((reads, fills, removed_by))
    is_there = (operations == Operation.READ_HIT) | (operations == Operation.WRITE)
    lives_ms = np.where(np.isfinite(served.lives_seconds), served.lives_seconds * 1000, _UNKNOWN_MS)
    fill_ms = np.full(len(missed), ttl_seconds * 1000 if ttl_seconds else _UNKNOWN_MS)
    ttls_ms = np.concatenate((lives_ms, fill_ms, np.full(len(removed_keys), _UNKNOWN_MS)))
    span = served.end_seconds - served.begin_seconds
    times = served.begin_seconds + span * (np.maximum(places, 0) + 0.5) / max(1, count)
    return ServerEvents(
        keys[order],
        operations[order],
        np.where(is_there, sizes_bytes[keys], 0).astype(np.uint32)[order],
        ttls_ms.astype(np.int64)[order],
        times[order],
    )
