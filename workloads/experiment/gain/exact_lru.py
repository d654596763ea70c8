"""A simulated Redis that evicts by exact LRU."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from sidecar.servers.server_reading import ServerReading

# What an empty server holds, and what a key takes beside its own bytes; about as Redis 7.0 has it.
BASELINE_BYTES = 900_000
OVERHEAD_BYTES = 72


class ExactLru:
    """Holds the most recent keys that fit; a miss is filled at once.

    Attributes:
        sizes_bytes: key and value of each key.
        used_bytes: of keys, with their overhead.
        hits, misses: since the start.
        weights: of each key, with its overhead.
        evicted: a list, for those who want to know: during which read of the last call, and which.
    """

    def __init__(self, number: int, sizes_bytes: npt.NDArray[np.uint32], maxmemory: int) -> None:
        self.number = number
        self.sizes_bytes = sizes_bytes
        self.maxmemory_bytes = maxmemory
        self.used_bytes = self.hits = self.misses = 0
        self.evicted: list[tuple[int, int]] | None = None
        self.weights: list[int] = (sizes_bytes.astype(np.int64) + OVERHEAD_BYTES).tolist()
        self._held: OrderedDict[int, None] = OrderedDict()  # by recency

    def __len__(self) -> int:
        return len(self._held)

    def read(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the reads, in order, are hits; shape as ``keys``."""
        held, weights, evicted = self._held, self.weights, self.evicted
        room = self.maxmemory_bytes - BASELINE_BYTES - self.used_bytes
        missed = []
        for place, key in enumerate(keys.tolist()):
            if key in held:
                held.move_to_end(key)
                continue
            missed.append(place)
            held[key] = None
            room -= weights[key]
            while room < 0:
                oldest, _ = held.popitem(last=False)
                room += weights[oldest]
                if evicted is not None:
                    evicted.append((place, oldest))
        self.used_bytes = self.maxmemory_bytes - BASELINE_BYTES - room
        hit = np.ones(len(keys), dtype=bool)
        hit[missed] = False
        self.misses += len(missed)
        self.hits += len(keys) - len(missed)
        return hit

    def resize(self, maxmemory_bytes: int) -> None:
        """``CONFIG SET maxmemory``."""
        self.maxmemory_bytes = maxmemory_bytes
        while self.used_bytes > max(0, maxmemory_bytes - BASELINE_BYTES):
            self.used_bytes -= self.weights[self._held.popitem(last=False)[0]]

    def reading(self, at_seconds: float) -> ServerReading:
        """What a sidecar would read of it."""
        counted = BASELINE_BYTES + self.used_bytes
        return ServerReading(
            run_id=f"{self.number:040x}",
            instance=self.number,
            role="master",
            maxmemory_bytes=self.maxmemory_bytes,
            maxmemory_policy="allkeys-lru",
            maxmemory_samples=100,  # as good as exact LRU
            lfu_log_factor=10,
            lfu_decay_time_minutes=1,
            counted_bytes=counted,
            baseline_bytes=BASELINE_BYTES - 3_000,
            unevictable_bytes=BASELINE_BYTES - 3_000,
            rss_bytes=counted,
            keyspace_hits=self.hits,
            keyspace_misses=self.misses,
            keys=len(self),
            keys_with_ttl=0,
            average_ttl_seconds=0.0,
            at_seconds=at_seconds,
            config={"spreds-endpoint": "ipc://simulated", "spreds-secret": ""},
        )
