"""What plans that nobody carries out would have saved, by the reads that came after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sidecar.curves.read_counts import ReadCounts
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import AccessCost


def access_seconds(
    servers: Sequence[ServerObservation],
    counts: Mapping[str, ReadCounts],
    in_force_bytes: Mapping[str, int],
    other_bytes: Mapping[str, int],
    seconds: float,
) -> tuple[float, float]:
    """Weighted time that the reads of a step of so many seconds took by the curves, with the sizes
    in force and with the others.

    Caches are taken to be full at once. A server of unknown size is left out, and one whose other
    size is 0, no limit, keeps what it has.
    """
    now_seconds = other_seconds = 0.0
    for server in servers:
        if (now := in_force_bytes.get(server.name)) is None or server.name not in other_bytes:
            continue
        sizes = np.array([float(now), float(other_bytes[server.name] or now)])
        misses = counts[server.name].misses(sizes, None) * seconds
        reads = counts[server.name].reads(None) * seconds
        cost = AccessCost.of(server)
        now_seconds += server.weight * cost.total_seconds(reads, float(misses[0]))
        other_seconds += server.weight * cost.total_seconds(reads, float(misses[1]))
    return now_seconds, other_seconds


class RecommendedGain:
    """Since ``since_seconds`` (Unix time), when the first of them was made."""

    def __init__(self, since_seconds: float) -> None:
        self.since_seconds = since_seconds
        self._spent = self._would = 0.0
        self._servers: Sequence[ServerObservation] = ()
        self._sizes_bytes: Mapping[str, int] = {}

    def recommend(
        self,
        servers: Sequence[ServerObservation],
        sizes_bytes: Mapping[str, int],
        now_seconds: float,
    ) -> None:
        """From now on with these sizes."""
        if not self._servers:
            self.since_seconds = now_seconds
        self._servers, self._sizes_bytes = servers, dict(sizes_bytes)

    def step(
        self, counts: Mapping[str, ReadCounts], in_force_bytes: Mapping[str, int], seconds: float
    ) -> None:
        """A step is over that took so long."""
        spent, would = access_seconds(
            self._servers, counts, in_force_bytes, self._sizes_bytes, seconds
        )
        self._spent, self._would = self._spent + spent, self._would + would

    @property
    def ratio(self) -> float | None:
        """Of the mean access time; ``None`` if nothing was read."""
        return 1 - self._would / self._spent if self._spent else None
