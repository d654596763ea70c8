"""What of a team's wish counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sidecar.config.node import ServerConfig
from sidecar.settings.team_settings import TeamSettings
from solver_lambda.documents.server_settings import BOUNDS

# So many times what is known of a backend's latency its team may state.
BELIEVED_RATIO = 10


def believed_latency(
    stated_seconds: float, config: ServerConfig, measured_seconds: float | None
) -> float:
    """What counts of the latency that a team states: it takes memory from the others, so no more
    than ``BELIEVED_RATIO`` times what the operator says, or what is measured if that is more. Nor
    less than such a part of what the operator says, or else of what is measured: whoever may write
    another team's document would take that team's memory."""
    said_seconds, measured_seconds = config.backend_latency_seconds, measured_seconds or 0.0
    least_seconds = (measured_seconds if said_seconds is None else said_seconds) / BELIEVED_RATIO
    most_seconds = BELIEVED_RATIO * max(said_seconds or 0.0, measured_seconds) or stated_seconds
    return max(least_seconds, min(stated_seconds, most_seconds))


def effective(server: ServerConfig, settings: TeamSettings | None) -> ServerConfig:
    """The operator's values with the team's in their place; of two minima the greater."""
    if settings is None:
        return server
    values: dict[str, Any] = {k: v for k, v in settings.values.items() if k not in BOUNDS}
    if settings.minimum_bytes is not None:
        values["minimum_bytes"] = max(settings.minimum_bytes, server.minimum_bytes)
    bounds = {k: v for k, v in settings.values.items() if k in BOUNDS}
    return replace(server, bounds={**server.bounds, **bounds}, **values)
