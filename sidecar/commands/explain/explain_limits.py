"""Says what ``spreds explain`` tells of what people set for a server, and of who follows it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sidecar.commands.printing import time_or
from sidecar.config.node import ServerConfig
from solver_lambda.documents.server_settings import SERVER_SETTINGS
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import BACKEND_NOTE

_DEFAULTS = {one.name: one.default for one in fields(ServerConfig)}
_FLOOR = "to hit as often as before SPREDS (its floor), "
_SOURCES = {"team": "as its team says", "configured": "as the operator says"}


def replicas_words(server: Mapping[str, Any]) -> list[str]:
    """Say which replicas follow a server."""
    who = ", ".join(server["replicas"] or ())
    return [f"{who} follows it and grows with it: is there memory for that?"] if who else []


def settings_words(
    config: ServerConfig, server: Mapping[str, Any], planned: Mapping[str, Any] | None
) -> list[str]:
    """Say what the operator and its team set for it, and what of that counts."""
    return [
        *_limits_words(config, server),
        *refused_words(server),
        *_weight_words(config, server),
        *backend_words(config, server, planned),
    ]


def _limits_words(config: ServerConfig, server: Mapping[str, Any]) -> list[str]:
    """Say from which size to which a server may be given one, and who says so."""
    low = server["minimum_bytes"] or config.minimum_bytes
    high = server["maximum_bytes"]
    team = server["settings_by"]
    whose = _whose(config, "minimum_bytes")
    if low != config.minimum_bytes:
        whose = f"its team's, signed {team}" if team else "what it needs to work at all"
    most = "as much as there is" if high is None else f"{format_size(high)} (the operator's)"
    words = [f"It may have from {format_size(low)} ({whose}) to {most}."]
    least = server.get("planned_from_bytes") or 0
    if least > low:
        words.append(
            f"The last plan had to leave it {format_size(least)}: for what it cannot evict, "
            f"{_FLOOR if config.floor == 'before' else ''}or half of an equal share beside others' "
            "wishes and needs."
        )
    return words


def refused_words(server: Mapping[str, Any]) -> list[str]:
    """Say why what its team set last is not in force."""
    why = server.get("settings_refused")
    return [f"What its team set last is not in force: {why.rstrip('.')}."] if why else []


def _weight_words(config: ServerConfig, server: Mapping[str, Any]) -> list[str]:
    """Say how much a read of it counts."""
    weight, team = server["weight"], server["settings_by"]
    if weight is None:
        return []
    is_teams = team and weight != config.weight
    by = f"its team's, signed {team}" if is_teams else _whose(config, "weight")
    return [f"A read of it counts with weight {weight:g} ({by})."]


def teams_bounds_words(
    server: Mapping[str, Any], told: Mapping[str, Any], said: Sequence[str]
) -> list[str]:
    """Say which bounds teams set for other servers, where ``said`` gives such bounds as the
    reason."""
    if not any("servers' bounds ask" in sentence for sentence in said):
        return []
    asked = [
        f"{other['name']} {', '.join(words)} (signed {other['settings_by']})"
        for other in told["servers"]
        if other["name"] != server["name"]
        and (words := _bounds_of(other.get("team_settings") or {}))
    ]
    return [f"Bounds that their teams set: {'; '.join(asked)}."] if asked else []


def _bounds_of(values: Mapping[str, Any]) -> list[str]:
    return [
        f"{setting.option.replace('_', ' ')} {setting.in_words(values[setting.name])}"
        for setting in SERVER_SETTINGS
        if setting.name in values and (setting.is_bound or setting.name == "minimum_bytes")
    ]


def _whose(config: ServerConfig, key: str) -> str:
    return "the default" if getattr(config, key) == _DEFAULTS[key] else "the operator's"


def backend_words(
    config: ServerConfig, server: Mapping[str, Any], planned: Mapping[str, Any] | None
) -> list[str]:
    """Say what a miss costs."""
    seconds, stated = server["backend_latency_seconds"], server.get("stated_latency_seconds")
    is_teams = server["backend_latency_source"] == "team"
    if is_teams and seconds and stated and not math.isclose(stated, seconds):
        return [
            f"Its backend latency counts as {time_or(seconds)} (its team says {time_or(stated)})."
        ]
    if planned is not None and (said := planned["reason"].partition(BACKEND_NOTE)[2]):
        return [f"Its backend takes {said}."]
    if seconds is None and config.backend_latency_seconds is not None:
        seconds = config.backend_latency_seconds
        return [
            f"Its backend latency is {time_or(seconds)} in the node's file; nothing was observed "
            "yet."
        ]
    if seconds is None:
        return ["Its backend latency is not known yet."]
    source = _SOURCES.get(server["backend_latency_source"], "as measured")
    return [f"Its backend latency is {time_or(seconds)}, {source}."]
