"""How Redis' cron finds keys whose TTL has passed (``src/expire.c``, Redis 7.0)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# ACTIVE_EXPIRE_CYCLE_KEYS_PER_LOOP and _ACCEPTABLE_STALE, the latter in percent.
_KEYS_A_LOOP = 20
_ACCEPTABLE_PERCENT = 10


class ExpiryCycle:
    """Looks at keys in the order of a hash table, and goes on where it ended.

    ``key_count`` is more than the greatest key.
    """

    def __init__(self, key_count: int, seed: int) -> None:
        self._order: list[int] = np.random.default_rng(seed).permutation(key_count).tolist()
        self._next = 0

    def run(self, expiries: Mapping[int, float], now: float) -> list[int]:
        """The dead keys that one run of the cron finds: it ends when a tenth of those that it last
        looked at, or less, were dead. ``expiries`` are the times when keys die."""
        dead: list[int] = []
        unseen = len(expiries)
        while unseen:
            looked_at = min(_KEYS_A_LOOP, unseen)
            found = [key for key in self._keys(expiries, looked_at) if expiries[key] <= now]
            dead += found
            unseen -= looked_at
            if 100 * len(found) <= _ACCEPTABLE_PERCENT * looked_at:
                break
        return dead

    def _keys(self, expiries: Mapping[int, float], count: int) -> list[int]:
        keys: list[int] = []
        while len(keys) < count:
            key = self._order[self._next]
            self._next = (self._next + 1) % len(self._order)
            if key in expiries:
                keys.append(key)
        return keys
