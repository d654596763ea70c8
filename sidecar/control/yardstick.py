"""What a miss of each server counts: its weight and its backend's latency, as they change."""

from __future__ import annotations

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.words import time_words

# A measured latency is never quite the same.
_SAME_RATIO = 0.1


class Yardstick:
    """Of one node, as it was when it last changed; of a server that is new nothing changes."""

    def __init__(self) -> None:
        self._servers: dict[str, ServerObservation] = {}

    def look(self, observation: Observation) -> str | None:
        """What has changed, for people; ``None``: nothing has."""
        weights, latencies = [], []
        for now in observation.servers:
            # Without a latency nothing is known yet of what its misses cost.
            if not now.backend_latency_seconds:
                continue
            before = self._servers.setdefault(now.name, now)
            was, latency = before.backend_latency_seconds, now.backend_latency_seconds
            least = _SAME_RATIO * was if now.backend_latency_source == "measured" else 0.0
            if before.weight != now.weight:
                weights.append(f"{now.name} {before.weight:g} -> {now.weight:g}")
            if abs(latency - was) > least:
                latencies.append(f"{now.name} {time_words(was)} -> {time_words(latency)}")
            elif before.weight == now.weight:
                continue
            self._servers[now.name] = now
        told = [
            f"{what} changed: {', '.join(ways)}"
            for what, ways in (("weights", weights), ("latency", latencies))
            if ways
        ]
        return "; ".join(told) or None
