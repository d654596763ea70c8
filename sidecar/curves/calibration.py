"""Learns what a server adds to each key, and to all of them, to get from key and value bytes to
``maxmemory``."""

from __future__ import annotations

from sidecar.curves.shards import Shards
from sidecar.servers.connection.server_reading import ServerReading

# The least counts until the server tells (some 15 to 90 bytes). A simulated cache that holds too
# much evicts it. It cannot take back what it evicted for keys that seemed too heavy.
FIRST_OVERHEAD_BYTES = 0
FIRST_OBJECT_BYTES = 192
# Redis 7.0.15 and Valkey 8.1 hold so much that we cannot put down to anything.
FIRST_FIXED_BYTES = 3_000
# Below both, the keys weigh less than everything else; above one of them they weigh more.
_FEW_KEYS = 256
_LITTLE_BYTES = 1 << 20
# No key takes less: an entry of a table, a string and its text.
_LEAST_KEY_BYTES = 40
# While more than this share of the keys is still being freed, nobody can tell what the others take.
_FREEING_SHARE = 1 / 64
# Redis 8.2 with a module accounts for 47,000 bytes twice; nothing is known that comes near this.
_MOST_TWICE_BYTES = 128 << 10


class Calibration:
    """Holds what is known of one server's memory.

    Attributes:
        fixed_bytes: in ``maxmemory``, neither keys nor accounted for by the server's INFO; learned
            while the server is nearly empty. Negative where INFO accounts for something twice: what
            a module's commands leave while it loads is in ``used_memory_startup`` already.
        overhead_bytes: to add to what each key's own bytes are allocated, so that the stack weighs
            what the server's memory says. Negative is possible: a server may compress.
        object_bytes: mean memory of a key with all overheads, ``None`` until known.
        keys_bytes: memory of all keys, at the last look.
    """

    def __init__(self) -> None:
        self.fixed_bytes = FIRST_FIXED_BYTES
        self.overhead_bytes = FIRST_OVERHEAD_BYTES
        self.object_bytes: float | None = None
        self.keys_bytes = 0.0

    def empty_bytes(self, baseline_bytes: int) -> int:
        """Return the ``maxmemory`` that holds no key, of a server with this baseline."""
        return max(0, baseline_bytes + self.fixed_bytes)

    def take_reading(self, reading: ServerReading, shards: Shards) -> float:
        """Learn from a reading. The mean weight of the objects that the server holds is compared
        with the memory that its keys take. (The most recent ones would not do. Eviction by samples
        leaves some that are old, and with them other sizes.)

        Returns:
            How many bytes heavier each object is than was thought.
        """
        if reading.freeing_objects > _FREEING_SHARE * reading.keys:
            return 0.0
        weighed = shards.mean_held_weight()
        beside_baseline = reading.counted_bytes - reading.baseline_bytes
        if not reading.keys or (reading.keys < _FEW_KEYS and beside_baseline < _LITTLE_BYTES):
            mean = self.object_bytes or max(FIRST_OBJECT_BYTES, weighed or 0.0)
            fixed_bytes = beside_baseline - round(reading.keys * mean)
            # Where there is not as much as the keys would take, the mean is of others: of keys that
            # are gone, or of scripts, until INFO accounted for them.
            if fixed_bytes >= -_MOST_TWICE_BYTES:
                self.fixed_bytes = fixed_bytes
            self.keys_bytes = float(max(0, beside_baseline - self.fixed_bytes))
            return 0.0
        if beside_baseline - self.fixed_bytes < _LEAST_KEY_BYTES * reading.keys:
            # Whatever took that memory while there were hardly any keys is gone: subscribers, say.
            self.fixed_bytes = FIRST_FIXED_BYTES
        self.keys_bytes = float(max(reading.keys, beside_baseline - self.fixed_bytes))
        self.object_bytes = self.keys_bytes / reading.keys
        return 0.0 if weighed is None else self.object_bytes - weighed
