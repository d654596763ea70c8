"""The last sizes at which curves were right: what a server goes back to when its curve is not."""

from __future__ import annotations

from dataclasses import replace

from solver_lambda.documents.observation import Observation, ServerObservation


class GoodSizes:
    """Of one node's servers; a minimum lasts ``held_seconds``.

    A curve that turns out to be wrong may have led to the very size that shows it. So the server
    is not kept there: the last size that it had for a whole window with a curve that was right is
    its minimum, and stays that for a time.
    """

    def __init__(self, held_seconds: float) -> None:
        self._held_seconds = held_seconds
        self._good_bytes: dict[str, int] = {}
        self._last_bytes: dict[str, int] = {}
        self._until_seconds: dict[str, float] = {}

    def held(self, observation: Observation) -> Observation:
        """With these minima, if the budget holds them."""
        servers = tuple(self._held(server, observation) for server in observation.servers)
        self._last_bytes = dict(observation.in_force_bytes)
        if sum(server.minimum_bytes for server in servers) > observation.budget_bytes:
            return observation
        return replace(observation, servers=servers)

    def _held(self, server: ServerObservation, observation: Observation) -> ServerObservation:
        name, size, now = server.name, server.maxmemory_bytes, observation.made_at_seconds
        # What it had before there was any plan was good enough.
        self._good_bytes.setdefault(name, size)
        is_held = now < self._until_seconds.get(name, 0.0)
        if server.curve_error_ratio <= observation.planning.maximum_curve_error_ratio:
            if self._last_bytes.get(name) == size and not is_held:
                self._good_bytes[name] = size
        elif server.curve_error_ratio < 1 and size < self._good_bytes.get(name, 0):
            self._until_seconds[name] = now + self._held_seconds
            is_held = True
        good = self._good_bytes.get(name, 0)
        if not is_held or server.keep_reason is not None:
            return server
        most = good if server.maximum_bytes is None else min(good, server.maximum_bytes)
        return replace(server, minimum_bytes=max(server.minimum_bytes, most))
