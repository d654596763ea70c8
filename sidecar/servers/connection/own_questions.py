"""Counts our own questions among a server's hits and misses, where its keys are looked at."""

from __future__ import annotations

import threading
from dataclasses import replace

from sidecar.servers.connection.server_reading import ServerReading


class OwnQuestions:
    """Counts our questions to one server, asked on one connection while others read its figures.

    Attributes:
        alone: held by who asks and counts, or reads figures: nobody does the one amid the other.
        cost_ratio: of a core of the server, for them, as it says.
        rest_until_seconds: none are asked before this time of the monotonic clock, whoever asks: so
            much of our processor they have taken.
        refused: why its keys cannot be looked at, for people; empty: they can, as far as is known.
    """

    def __init__(self) -> None:
        self.alone = threading.Lock()
        self._hits = self._misses = 0
        # What the counters said last: those of another process, and reset ones, begin at 0.
        self._run_id, self._raw_reads = "", 0
        self.refused, self.cost_ratio = "", 0.0
        self.rest_until_seconds = 0.0

    def count(self, found: int, missing: int) -> None:
        """Count keys that were asked after, ``alone``."""
        self._hits += found
        self._misses += missing

    def left_out(self, reading: ServerReading) -> ServerReading:
        """Return the reading, taken ``alone``, without them, and with what is known of the look."""
        raw_reads = reading.keyspace_hits + reading.keyspace_misses
        if self._run_id not in ("", reading.run_id) or raw_reads < self._raw_reads:
            self._hits = self._misses = 0
        self._run_id, self._raw_reads = reading.run_id, raw_reads
        return replace(
            reading,
            keyspace_hits=max(0, reading.keyspace_hits - self._hits),
            keyspace_misses=max(0, reading.keyspace_misses - self._misses),
            look_refused=self.refused,
            look_cost_ratio=self.cost_ratio,
        )
