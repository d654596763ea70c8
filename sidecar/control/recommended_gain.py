"""What plans that nobody carries out would have saved, by the reads that came after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sidecar.curves.read_counts import ReadCounts
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import AccessCost


class RecommendedGain:
    """Since ``since_seconds`` (Unix time), when the first of them was made.

    Caches are taken to be full at once, so it is a little more than would have been had.
    """

    def __init__(self, since_seconds: float) -> None:
        self.since_seconds = since_seconds
        self._spent = self._saved = 0.0
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
        for server in self._servers:
            now, then = in_force_bytes.get(server.name), self._sizes_bytes[server.name]
            if now is None:
                continue
            # One that is to stay without a limit keeps what it has.
            sizes = np.array([float(now), float(then or now)])
            misses = counts[server.name].misses(sizes, None) * seconds
            reads = counts[server.name].reads(None) * seconds
            cost = AccessCost.of(server)
            self._spent += server.weight * cost.total_seconds(reads, float(misses[0]))
            self._saved += server.weight * cost.total_seconds(0, float(misses[0] - misses[1]))

    @property
    def ratio(self) -> float | None:
        """Of the mean access time; ``None`` if nothing was read."""
        return self._saved / self._spent if self._spent else None
