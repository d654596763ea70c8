"""Makes the observation by which plans go back to earlier sizes, and says who keeps its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from solver_lambda.documents.observation import Observation
from solver_lambda.planning.bounds import bounds_of


def going_back(observation: Observation, sizes_bytes: Mapping[str, int]) -> Observation:
    """Return the observation by which plans go back to these sizes, where a team's bounds leave the
    choice."""
    servers = []
    for server in observation.servers:
        if (size := sizes_bytes.get(server.name)) is not None:
            if server.maximum_bytes is not None:
                size = min(size, server.maximum_bytes)
            size = max(size, server.minimum_bytes)
            server = replace(server, minimum_bytes=size, maximum_bytes=size)
        servers.append(server)
    return replace(observation, servers=tuple(servers), goes_back=True)


def kept_for_bounds(now: Observation, back: Observation) -> dict[str, int]:
    """Return the sizes of servers of which ``back``, by its least sizes, breaks a bound that a team
    set. The bound may be worth more to it than all that is lost by it. One that is not met takes no
    half-life."""
    return {
        server.name: server.maxmemory_bytes
        for server, then in zip(now.servers, back.servers, strict=True)
        if server.keep_reason is None
        for bound in bounds_of(server)
        if bound.is_met(server.maxmemory_bytes) and not bound.is_met(then.minimum_bytes)
    }


def kept_for_needs(
    now_bytes: Mapping[str, int], first_bytes: Mapping[str, int], needed_bytes: Mapping[str, int]
) -> dict[str, int]:
    """Return the sizes of servers that hold what they cannot evict: with the first ones, others
    would have made room for that."""
    return {
        name: min(size, first_bytes[name] + needed_bytes[name])
        for name, size in now_bytes.items()
        if name in needed_bytes
    }
