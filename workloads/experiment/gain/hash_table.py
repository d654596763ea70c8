"""The buckets of a Redis hash table, which stay when the keys go (``src/dict.c``, Redis 7.0)."""

from __future__ import annotations

BUCKET_BYTES = 8
_FIRST_BUCKETS = 4
# HASHTABLE_MAX_LOAD_FACTOR: fuller than this, a table grows even where that exceeds maxmemory.
_MOST_FILLED = 1.618
# HASHTABLE_MIN_FILL, percent: emptier than this, it shrinks.
_LEAST_FILLED_PERCENT = 10


class HashTable:
    """A power of two of buckets; both methods return by how many bytes it grew."""

    def __init__(self) -> None:
        self._buckets = 0
        self._moved_from = 0  # buckets of the table that the keys are still moved from

    def make_room(self, keys: int, spare_bytes: int) -> int:
        """Before a key is added to ``keys``; ``spare_bytes`` are left below maxmemory."""
        if keys < self._buckets or self._moved_from:
            return 0
        buckets = max(_FIRST_BUCKETS, 1 << keys.bit_length())
        if keys <= _MOST_FILLED * self._buckets and buckets * BUCKET_BYTES > spare_bytes:
            return 0
        return self._move_to(buckets)

    def look(self, keys: int) -> int:
        """As Redis' cron does: it moves the keys, and shrinks a table that is nearly empty."""
        freed, self._moved_from = self._moved_from, 0
        grown = 0
        if self._buckets > _FIRST_BUCKETS and 100 * keys < _LEAST_FILLED_PERCENT * self._buckets:
            grown = self._move_to(max(_FIRST_BUCKETS, 1 << max(0, keys - 1).bit_length()))
        return grown - freed * BUCKET_BYTES

    def _move_to(self, buckets: int) -> int:
        self._moved_from, self._buckets = self._buckets, buckets
        return buckets * BUCKET_BYTES
