"""Tells how much of a team's wish counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sidecar.config.node import ServerConfig
from sidecar.settings.team_settings import TeamSettings
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.documents.server_settings import BOUNDS

Server = TypeVar("Server", ServerConfig, ServerObservation)

# A team may state so many times what is known of its backend's latency.
BELIEVED_RATIO = 10
# So much more than known is no more than rounding.
_SAME_RATIO = 1e-9


def believed_latency(
    stated_seconds: float, config: ServerConfig, measured_seconds: float | None
) -> float:
    """Return what counts of the latency that a team states, as it takes memory from the others. It
    is no more than ``BELIEVED_RATIO`` times what the operator says, or what is measured if that is
    more. It is no less than such a part of what the operator says, or else of what is measured:
    whoever may write another team's document would take that team's memory."""
    said_seconds, measured_seconds = config.backend_latency_seconds, measured_seconds or 0.0
    least_seconds = (measured_seconds if said_seconds is None else said_seconds) / BELIEVED_RATIO
    most_seconds = BELIEVED_RATIO * max(said_seconds or 0.0, measured_seconds) or stated_seconds
    return max(least_seconds, min(stated_seconds, most_seconds))


def is_immodest(
    values: Mapping[str, float], config: ServerConfig, measured_seconds: float | None
) -> bool:
    """Return whether a team (by ``values``) asks for more than the operator granted: a lower bound,
    or a greater product of weight and latency, as far as that counts. Such a wish takes no other
    server below half of an equal share. Where the operator agrees, the node's file says the same.
    Even a slight excess counts: otherwise a small wish could take more than a large one."""
    if any(values[key] < config.bounds.get(key, math.inf) for key in BOUNDS.keys() & values.keys()):
        return True
    worth = values.get("weight", config.weight)
    known = config.weight
    if (stated_seconds := values.get("backend_latency_seconds")) is not None:
        worth *= believed_latency(stated_seconds, config, measured_seconds)
        known *= config.backend_latency_seconds or measured_seconds or 0.0
    return worth > (1 + _SAME_RATIO) * known


def effective(server: ServerConfig, settings: TeamSettings | None) -> ServerConfig:
    """Return the operator's values with the team's in their place; of two minima the greater."""
    return with_wish(server, settings.values) if settings else server


def with_wish(server: Server, values: Mapping[str, Any]) -> Server:
    """Apply a team's settings (``values``) as ``effective`` does, also to an observed server."""
    changes = {key: value for key, value in values.items() if key not in BOUNDS}
    if "minimum_bytes" in changes:
        changes["minimum_bytes"] = max(int(changes["minimum_bytes"]), server.minimum_bytes)
    bounds = {key: value for key, value in values.items() if key in BOUNDS}
    return replace(server, bounds={**server.bounds, **bounds}, **changes)
