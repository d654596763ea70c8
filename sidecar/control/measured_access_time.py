"""The node's mean access time as its servers counted hits and misses, whatever curves say."""

from __future__ import annotations

from collections.abc import Iterable

from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import AccessCost


def measured_access_seconds(servers: Iterable[ServerObservation]) -> float | None:
    """Return the weighted mean of a window over all reads (thesis, equation 8.2, with the miss
    ratios that were counted). ``None`` if nothing was read, or of a server that was read nothing is
    known."""
    total = reads = 0.0
    for server in servers:
        weighted = server.weight * server.request_rate_per_second
        if not weighted:
            continue
        if server.miss_ratio is None or not server.backend_latency_seconds:
            return None
        total += weighted * AccessCost.of(server).mean_seconds(server.miss_ratio)
        reads += weighted
    return total / reads if reads else None
