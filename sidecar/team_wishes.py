"""What of a team's wish counts, and what it may take from the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sidecar.config.node import ServerConfig
from sidecar.settings.team_settings import TeamSettings
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.server_settings import BOUNDS
from solver_lambda.planning.effective_access_time import EffectiveAccessTime

# So many times what is known of a backend's latency its team may state.
BELIEVED_RATIO = 10
# Others are protected from a wish for so many times what an operator says, or what is measured.
_WISHED_RATIO = 2.0
# Minima are whole parts of an equal share: with others in each cycle, no plan could be judged.
_PARTS = 16


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


def beside_wishes(
    observation: Observation, wishing: Mapping[str, ServerConfig], slowdown_ratio: float
) -> Observation:
    """Where a miss counts for much more than its operator says, as a team wishes, each server keeps
    what it has, up to the size at which a read takes ``slowdown_ratio`` longer than with the size
    that SPREDS found, or an equal share if that is less. So nobody starves another by a weight or a
    latency. Who counts for less, as his team wishes, gives all the same. ``wishing``: servers whose
    teams have settings, as their operator has them."""
    times = {
        server.name: _times_wished(server, wishing[server.name]) if server.name in wishing else 1.0
        for server in observation.servers
    }
    if max(times.values()) < _WISHED_RATIO:
        return observation
    share_bytes = observation.budget_bytes // len(observation.servers)
    servers = []
    for server in observation.servers:
        if server.keep_reason is None and times[server.name] >= 1:
            kept_bytes = _kept_bytes(server, share_bytes, slowdown_ratio)
            server = replace(server, minimum_bytes=max(server.minimum_bytes, kept_bytes))
        servers.append(server)
    return replace(observation, servers=tuple(servers))


def _times_wished(server: ServerObservation, operators: ServerConfig) -> float:
    """So many times what its operator says, or what is measured, a miss of it counts. By a latency
    that nobody else knows nothing can be said."""
    known = operators.backend_latency_seconds or server.measured_backend_latency_seconds
    latency = server.backend_latency_seconds / known if known else 1.0
    if not operators.weight:
        return math.inf if server.weight else latency
    return server.weight / operators.weight * latency


def _kept_bytes(server: ServerObservation, share_bytes: int, slowdown_ratio: float) -> int:
    had_bytes = min(server.installed_bytes or share_bytes, share_bytes)
    eat = EffectiveAccessTime.of(server)
    most_seconds = (1 + slowdown_ratio) * float(eat.seconds([had_bytes])[0])
    part_bytes = max(1, share_bytes // _PARTS)
    sizes = np.arange(part_bytes, had_bytes + 1, part_bytes)
    enough = sizes[eat.seconds(sizes) <= most_seconds]
    kept_bytes = int(enough[0]) if len(enough) else had_bytes
    return min(server.maxmemory_bytes, kept_bytes, server.maximum_bytes or kept_bytes)
