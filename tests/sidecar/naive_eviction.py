"""The eviction of Redis' ``src/evict.c``, as its source has it, for caches of equal objects."""

from __future__ import annotations

import random

import numpy as np

POOL = 16


def sampled_miss_ratio(keys: np.ndarray, capacity: int, samples: int, warm: int) -> float:
    """Simulate a cache that evicts the best of a few random objects and of a pool of earlier ones;
    ``samples`` 1 evicts at random. The reads before ``warm`` are not counted."""
    draw = random.Random(capacity)
    last_read: dict[int, int] = {}
    resident: list[int] = []
    pool: list[tuple[int, int]] = []  # (last read when it was looked at, object), the best first
    misses = 0
    for now, key in enumerate(keys.tolist()):
        if key not in last_read:
            misses += now >= warm
            resident.append(key)
        last_read[key] = now
        while len(resident) > capacity:
            if samples == 1:
                victim = draw.choice(resident)
            else:
                looked_at = [(last_read[one], one) for one in draw.choices(resident, k=samples)]
                pool = sorted({*pool, *looked_at})[:POOL]
                victim = pool.pop(0)[1]
            if victim in last_read:
                del last_read[victim]
                place = resident.index(victim)
                resident[place] = resident[-1]
                resident.pop()
    return misses / (len(keys) - warm)
