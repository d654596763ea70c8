"""Each shrink is an experiment: what the keys that go bring back tells what is no key.

A module's memory, tables of tracked keys, channels, or a few large values that are never evicted:
INFO names only some of it, so all of it is learned in one way. Where keys go and their share of the
memory does not come back, what is left over cannot be evicted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

# Fewer keys that went tell nothing; nor do they where the server has many.
FEWEST_KEYS, FEWEST_RATIO = 200, 0.05
# Keys differ: those that are evicted first may well be half as large as the others.
MOST_UNEXPLAINED_RATIO = 0.5
# A shrink is over when no portion came for so long.
PAUSE_SECONDS = 10.0
# A server tells of its clients' buffers up to a second late: until then they seem to be keys'
# memory that does not come back.
SURE_SECONDS = 2.0
# Then it is tried again: the memory may have changed, or keys made the guess wrong.
FORGET_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class _Learned:
    before: ServerReading
    at_seconds: float
    unevictable_bytes: int


class EvictionYield:
    """Learns which memory of one server evictions do not free."""

    def __init__(self, name: str, metrics: Metrics) -> None:
        self._name = name
        self._metrics = metrics
        self._last: ServerReading | None = None
        # Before the shrink that is under way; when its last portion came.
        self._before: ServerReading | None = None
        self._portion_at_seconds = 0.0
        self._seems_since_seconds: float | None = None
        self._learned: _Learned | None = None

    def learn(self, reading: ServerReading) -> ServerReading:
        """Take the next reading: it comes back with what is known by now, see
        ``ServerReading.unyielding_bytes``."""
        self._follow(reading)
        if self._before is None or not self._seems_vain(self._before, reading):
            self._seems_since_seconds = None
        elif self._seems_since_seconds is None:
            self._seems_since_seconds = reading.at_seconds
        elif reading.at_seconds - self._seems_since_seconds >= SURE_SECONDS:
            self._learn(self._before, reading)
        self._last = reading
        learned = self._learned
        if self._seems_since_seconds is not None and learned is None:
            # Until that is sure it is not shrunk further: it works with what it has now.
            least_bytes = max(reading.unevictable_bytes, reading.maxmemory_bytes - 1)
            return replace(reading, unevictable_bytes=least_bytes, seems_unyielding=True)
        if learned is None or learned.unevictable_bytes <= reading.unevictable_bytes:
            return reading
        unyielding_bytes = learned.unevictable_bytes - reading.unevictable_bytes
        return replace(
            reading,
            # The rest is shared by the keys: else each would seem to weigh more than it does.
            baseline_bytes=reading.baseline_bytes + unyielding_bytes,
            unevictable_bytes=learned.unevictable_bytes,
            unyielding_bytes=unyielding_bytes,
        )

    def _follow(self, reading: ServerReading) -> None:
        last, learned, now_seconds = self._last, self._learned, reading.at_seconds
        if learned is not None and (
            learned.before.run_id != reading.run_id
            or now_seconds - learned.at_seconds > FORGET_SECONDS
            # A little of it comes and goes with its clients.
            or reading.counted_bytes < (1 - FEWEST_RATIO) * learned.unevictable_bytes
            or _have_come_back(learned.before, reading)
        ):
            self._learned = None
        if last is None or last.run_id != reading.run_id or not reading.maxmemory_bytes:
            self._before = None
        elif reading.ignores_maxmemory or last.role != reading.role:
            self._before = None  # a primary drops its replicas' keys, whatever their limits
        elif reading.maxmemory_bytes < (last.maxmemory_bytes or last.counted_bytes):
            self._before, self._portion_at_seconds = self._before or last, now_seconds
        elif now_seconds - self._portion_at_seconds > PAUSE_SECONDS or (
            # It is given at once what it seems to need; that does not end the shrink.
            reading.maxmemory_bytes > last.maxmemory_bytes > 0 and self._seems_since_seconds is None
        ):
            self._before = None

    def _seems_vain(self, before: ServerReading, now: ServerReading) -> bool:
        gone = _evictable_keys(before) - _evictable_keys(now)
        if gone < max(FEWEST_KEYS, FEWEST_RATIO * _evictable_keys(before)) or now.freeing_objects:
            return False
        unexplained = _unexplained_bytes(before, now)
        if not now.keys and unexplained < FEWEST_RATIO * _keys_bytes(before):
            return False  # some of its own is left of any server
        return unexplained > MOST_UNEXPLAINED_RATIO * _keys_bytes(now)

    def _learn(self, before: ServerReading, now: ServerReading) -> None:
        unevictable_bytes = now.unevictable_bytes
        if now.keys:  # otherwise that is all that it holds
            unevictable_bytes += _unexplained_bytes(before, now)
        if self._learned is None:
            self._metrics.shrinks_in_vain.labels(self._name).inc()
            gone = _evictable_keys(before) - _evictable_keys(now)
            freed = format_size(max(0, _keys_bytes(before) - _keys_bytes(now)))
            log.warning(
                "server %s: %d keys went and brought back %s, so some %s of what it holds is not "
                "evicted by a smaller maxmemory: it is not shrunk below that",
                *(self._name, gone, freed, format_size(unevictable_bytes)),
            )
        self._learned = _Learned(before, now.at_seconds, unevictable_bytes)


def _have_come_back(before: ServerReading, now: ServerReading) -> bool:
    """Whether by now the keys that went have brought back their share: what took their place were
    buffers of clients that a server told nothing of, as none was there for long."""
    keys_before, keys = _evictable_keys(before), _evictable_keys(now)
    is_less = keys <= (1 - FEWEST_RATIO) * keys_before
    return is_less and _keys_bytes(now) * keys_before <= _keys_bytes(before) * keys


def _unexplained_bytes(before: ServerReading, now: ServerReading) -> int:
    """Return how much of what it holds its keys do not take, judging by the keys that went. What it
    says itself to be no keys is left out."""
    keys = _evictable_keys(now)
    gone = _evictable_keys(before) - keys
    freed_bytes = max(0, _keys_bytes(before) - _keys_bytes(now))
    return round(_keys_bytes(now) - keys * freed_bytes / gone)


def _keys_bytes(reading: ServerReading) -> int:
    """Return what keys take; where there is no key, nothing."""
    told = reading.unevictable_bytes if reading.keys else reading.baseline_bytes
    return reading.counted_bytes - told


def _evictable_keys(reading: ServerReading) -> int:
    volatile = reading.maxmemory_policy.startswith("volatile-")
    return reading.keys_with_ttl if volatile else reading.keys
