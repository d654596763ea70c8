"""Keeps sizes, hit ratios and access times over time, for a picture; in memory only."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.control.measured_access_time import access_seconds_of
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.observation import Observation, ServerObservation

MOST_POINTS = 1000
_MOST_MARKS = 100
# Points in a cycle.
_POINTS_A_CYCLE = 60
_LEAST_SECONDS = 1.0
# Reads are counted over so long at least: what comes in a second swings.
_COUNTED_SECONDS = 10.0
# With fewer reads a ratio is noise.
_FEWEST_READS = 20


@dataclass(frozen=True)
class _Point:
    """Has by server ``maxmemory`` and hit ratios at one time; mean access times in seconds."""

    at_seconds: float
    sizes_bytes: dict[str, int] = field(default_factory=dict)
    hit_ratios: dict[str, float] = field(default_factory=dict)
    predicted_hit_ratios: dict[str, float] = field(default_factory=dict)
    mean_seconds: float | None = None
    predicted_mean_seconds: float | None = None


class Series:
    """Keeps one node's points; not for use by two threads at once, but any may ask for ``table``.

    Attributes:
        hit_ratios, reads_per_second: of each server since the last point but one, or for the last
            ten seconds.
        mean_seconds: the mean access time of those, weighted by reads; ``None``: not known.
        unmeasured: servers that are read, and are not in it: not in that time, or what a miss
            costs is not known.
    """

    def __init__(self, cycle_seconds: float) -> None:
        self._seconds = max(_LEAST_SECONDS, cycle_seconds / _POINTS_A_CYCLE)
        self._points: deque[_Point] = deque(maxlen=MOST_POINTS)
        self._marks: deque[dict[str, Any]] = deque(maxlen=_MOST_MARKS)
        self._readings: deque[tuple[float, dict[str, ServerReading]]] = deque()
        self.hit_ratios: dict[str, float] = {}
        self.reads_per_second: dict[str, float] = {}
        self.mean_seconds: float | None = None
        self.unmeasured: list[str] = []

    def take_readings(
        self,
        now_seconds: float,
        readings: Mapping[str, ServerReading],
        observation: Observation | None,
        predicted_hit_ratios: Mapping[str, float],
    ) -> None:
        """Add a point if it is time (Unix). ``predicted_hit_ratios`` is what is expected now."""
        if self._points and now_seconds - self._points[-1].at_seconds < self._seconds:
            return
        while len(self._readings) > 1 and now_seconds - self._readings[1][0] >= _COUNTED_SECONDS:
            self._readings.popleft()
        self.hit_ratios, self.reads_per_second = {}, {}
        for name, reading in readings.items():
            before = self._counted_from(name, reading.run_id)
            if before is None:
                continue
            hits = reading.keyspace_hits - before.keyspace_hits
            reads = hits + reading.keyspace_misses - before.keyspace_misses
            seconds = reading.at_seconds - before.at_seconds
            if hits < 0 or reads < hits or seconds <= 0:
                continue  # RESETSTAT
            self.reads_per_second[name] = reads / seconds
            if reads >= _FEWEST_READS:
                self.hit_ratios[name] = hits / reads
        servers = {server.name: server for server in observation.servers} if observation else {}
        self.mean_seconds = self._mean_seconds(servers, self.hit_ratios)
        self.unmeasured = [
            name
            for name, server in servers.items()
            if (name not in self.hit_ratios or not server.backend_latency_seconds)
            and server.request_rate_per_second * self._seconds >= _FEWEST_READS
        ]
        self._readings.append((now_seconds, dict(readings)))
        self._points.append(
            _Point(
                now_seconds,
                {name: reading.maxmemory_bytes for name, reading in readings.items()},
                self.hit_ratios,
                dict(predicted_hit_ratios),
                self.mean_seconds,
                # All count, or none: a mean of some cannot be compared with one of all.
                self._mean_seconds(servers, predicted_hit_ratios)
                if self.hit_ratios.keys() & servers.keys() <= predicted_hit_ratios.keys()
                else None,
            )
        )

    def _counted_from(self, name: str, run_id: str) -> ServerReading | None:
        """Return the first reading of this process that is not too old."""
        known = (readings.get(name) for _, readings in self._readings)
        return next((one for one in known if one is not None and one.run_id == run_id), None)

    def mark(self, at_seconds: float, words: str) -> None:
        """Mark that mean access times from then on (Unix time) are not to be compared with earlier
        ones."""
        self._marks.append({"at_seconds": at_seconds, "words": words})

    def _mean_seconds(
        self, servers: Mapping[str, ServerObservation], hit_ratios: Mapping[str, float]
    ) -> float | None:
        """Return the mean weighted by the reads of now; ``None`` if that is not known."""
        counted = {
            name: (rate, 1 - hit_ratios[name])
            for name, rate in self.reads_per_second.items()
            if name in hit_ratios and name in servers
        }
        return access_seconds_of(counted, servers.values())

    def table(self) -> dict[str, Any]:
        """Return columns, the oldest first; ``None`` where nothing is known."""
        points = list(self._points)
        names = sorted({name for point in points for name in point.sizes_bytes})
        return {
            "at_seconds": [point.at_seconds for point in points],
            "mean_access_time_seconds": [point.mean_seconds for point in points],
            "predicted_mean_access_time_seconds": [
                point.predicted_mean_seconds for point in points
            ],
            "marks": list(self._marks),
            "servers": {
                name: {
                    "maxmemory_bytes": [point.sizes_bytes.get(name) for point in points],
                    "hit_ratio": [point.hit_ratios.get(name) for point in points],
                    "predicted_hit_ratio": [
                        point.predicted_hit_ratios.get(name) for point in points
                    ],
                }
                for name in names
            },
        }
