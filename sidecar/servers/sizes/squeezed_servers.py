"""Knows which servers had to evict keys, and will again: they use all that they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sidecar.servers.connection.server_reading import ServerReading

# A server with less than this share of what it held when it last evicted was emptied.
_EMPTIED = 0.75
# A server tells of its clients' buffers up to a second late: until then they seem to be keys.
_TOLD_SECONDS = 3.0


class _Held(NamedTuple):
    """Has the least that a server held in the seconds after it last evicted a key."""

    evicted_at_seconds: float
    keys: int
    keys_bytes: int


class SqueezedServers:
    """Knows who has evicted keys and was not emptied since: they had filled what they have, and
    will again. What replicas evict is their primaries' own.

    Attributes:
        names: of these servers.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._evicted: dict[str, int] = {}
        self._held: dict[str, _Held] = {}

    def take_readings(self, readings: Mapping[str, ServerReading]) -> None:
        """Take what servers said last."""
        for name, one in readings.items():
            before = self._evicted.get(name, one.evicted_keys)
            self._evicted[name] = one.evicted_keys
            held = self._held.get(name)
            keys_bytes = one.counted_bytes - one.unevictable_bytes
            if one.ignores_maxmemory or one.evicted_keys < before:  # or it has restarted
                self._held.pop(name, None)
            elif one.evicted_keys > before:
                self._held[name] = _Held(one.at_seconds, one.keys, keys_bytes)
            elif held and one.at_seconds < held.evicted_at_seconds + _TOLD_SECONDS:
                least = min(held.keys, one.keys), min(held.keys_bytes, keys_bytes)
                self._held[name] = _Held(held.evicted_at_seconds, *least)
            elif held and (
                one.keys < _EMPTIED * held.keys or keys_bytes < _EMPTIED * held.keys_bytes
            ):
                del self._held[name]
        self.names = self._held.keys() & readings.keys()
