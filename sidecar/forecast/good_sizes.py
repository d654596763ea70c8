"""The last sizes at which curves were right: what a server goes back to when its curve is not."""

from __future__ import annotations

from dataclasses import replace

from solver_lambda.documents.observation import Observation, ServerObservation


class GoodSizes:
    """Of one node's servers.

    A curve that turns out to be wrong may have led to the very size that shows it. So the server
    is not kept there: the last size that it had for a whole window with a curve that was right is
    its minimum until its curve is right again.
    """

    def __init__(self) -> None:
        self._good_bytes: dict[str, int] = {}
        self._last_bytes: dict[str, int] = {}

    def held(self, observation: Observation) -> Observation:
        """With these minima, if the budget holds them."""
        servers = tuple(self._held(server, observation) for server in observation.servers)
        self._last_bytes = dict(observation.in_force_bytes)
        if sum(server.minimum_bytes for server in servers) > observation.budget_bytes:
            return observation
        return replace(observation, servers=servers)

    def _held(self, server: ServerObservation, observation: Observation) -> ServerObservation:
        size = server.maxmemory_bytes
        if server.curve_error_ratio <= observation.planning.maximum_curve_error_ratio:
            if self._last_bytes.get(server.name) == size:
                self._good_bytes[server.name] = size
            return server
        good = self._good_bytes.get(server.name, 0)
        if server.keep_reason is not None or good <= size:
            return server
        most = good if server.maximum_bytes is None else min(good, server.maximum_bytes)
        return replace(server, minimum_bytes=max(server.minimum_bytes, most))
