"""Measures the node's mean access time as its servers counted hits and misses, whatever curves
say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import AccessCost

# By server: reads a second, and the ratio of misses among them.
CountedReads = Mapping[str, tuple[float, float]]


def counted_reads(servers: Iterable[ServerObservation]) -> dict[str, tuple[float, float]]:
    """Return what was read of each in a window; empty if of one that was read nothing is known."""
    found = {}
    for server in servers:
        if not server.request_rate_per_second:
            continue
        if server.miss_ratio is None:
            return {}
        found[server.name] = (server.request_rate_per_second, server.miss_ratio)
    return found


def access_seconds_of(counted: CountedReads, servers: Iterable[ServerObservation]) -> float | None:
    """Return the weighted mean over these reads at the weights and latencies that ``servers`` have
    (thesis, equation 8.2, with the miss ratios that were counted). Left out is a server of which
    nobody knows what its misses cost. ``None`` if no other was read, or one of them is gone."""
    seen = {one.name: one for one in servers}
    if counted.keys() - seen.keys():
        return None
    total = reads = 0.0
    for name, (rate, miss_ratio) in counted.items():
        if not seen[name].backend_latency_seconds:
            continue
        weighted = seen[name].weight * rate
        total += weighted * AccessCost.of(seen[name]).mean_seconds(miss_ratio)
        reads += weighted
    return total / reads if reads else None
