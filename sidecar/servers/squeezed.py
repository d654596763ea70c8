"""Servers that gave keys for what came and went: they had filled what they have, and will again."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.servers.server_reading import ServerReading

# Of the keys that it had when it last evicted one: with fewer somebody has emptied it.
_EMPTIED = 0.75


class Squeezed:
    """Who has evicted keys, and was not emptied since; what replicas evict is their primaries' own.

    Attributes:
        names: of these servers.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._evicted: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def look(self, readings: Mapping[str, ServerReading]) -> None:
        """Take what servers said last."""
        for name, one in readings.items():
            before = self._evicted.get(name, one.evicted_keys)
            self._evicted[name] = one.evicted_keys
            if one.evicted_keys > before and not one.ignores_maxmemory:
                self._keys[name] = one.keys
            elif (
                one.ignores_maxmemory
                or one.evicted_keys < before  # it has restarted
                or one.keys < _EMPTIED * self._keys.get(name, 0)
            ):
                self._keys.pop(name, None)
        self.names = self._keys.keys() & readings.keys()
