"""Works out the sizes when the budget has fallen below what servers are to have: all give, at once.

Unlike a plan this cannot wait until memory is needed elsewhere: the machine, or the container, has
less, and what does not fit is killed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidecar.config.node import ServerConfig
from sidecar.servers.sizes.initial_sizes import initial_sizes
from sidecar.servers.sizes.transitions import LEAST_GROWTH_RATIO, ServerState
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


def unmovable_bytes(states: Sequence[ServerState]) -> dict[str, int]:
    """Return the limits of servers that cannot be given another now, or do not answer. One that
    somebody set by hand and that is to be put back is none of them."""
    return {
        state.name: int(state.maxmemory_bytes)
        for state in states
        if not state.moves and not state.contested and state.maxmemory_bytes < math.inf
    }


def within_maxima(
    servers: Sequence[ServerConfig], sizes_bytes: Mapping[str, int]
) -> dict[str, int]:
    """Return each size, or the operator's ``maximum`` where that is less."""
    most = {one.name: one.maximum_bytes for one in servers if one.maximum_bytes is not None}
    return {name: min(size, most.get(name, size)) for name, size in sizes_bytes.items()}


def is_about(sizes_bytes: Mapping[str, int], others_bytes: Mapping[str, int]) -> bool:
    """Whether they are apart by so little that a growth would wait for more. What a server needs
    so as not to refuse writes comes with headroom, which is more."""
    return all(
        abs(size - others_bytes[name]) < LEAST_GROWTH_RATIO * others_bytes[name]
        for name, size in sizes_bytes.items()
    )


def bounded_claims(
    servers: Sequence[ServerConfig], sizes_bytes: Mapping[str, int], budget_bytes: int
) -> dict[str, int]:
    """Return what others make room for, of the sizes of servers that keep them: the operator's
    ``maximum`` of each at most, and together what the minima of the others leave. Whoever sets a
    size there, or says that it is so, must not empty the others by it."""
    claims = within_maxima(servers, sizes_bytes)
    minima = {one.name: one.minimum_bytes for one in with_minima_that_fit(servers, budget_bytes)}
    low = {name: min(size, minima[name]) for name, size in claims.items()}
    spare = budget_bytes - sum(size for name, size in minima.items() if name not in claims)
    above, spare_above = sum(claims.values()) - sum(low.values()), spare - sum(low.values())
    if above <= spare_above:
        return claims
    return {name: low[name] + (claims[name] - low[name]) * spare_above // above for name in claims}


def with_minima_that_fit(servers: Sequence[ServerConfig], budget_bytes: int) -> list[ServerConfig]:
    """Return the servers with their minima cut in proportion, if all together do not fit."""
    minima = [max(1, server.minimum_bytes) for server in servers]  # to Redis, 0 is no limit
    if (wanted := sum(minima)) > budget_bytes:
        above, spare_above = wanted - len(minima), budget_bytes - len(minima)
        minima = [1 + (minimum - 1) * spare_above // above for minimum in minima]
    pairs = zip(servers, minima, strict=True)
    return [replace(server, minimum_bytes=minimum) for server, minimum in pairs]


def fitted_sizes(
    servers: Sequence[ServerConfig],
    sizes_bytes: Mapping[str, int],
    fixed_bytes: Mapping[str, int],
    budget_bytes: int,
    least_bytes: Mapping[str, int],
) -> dict[str, int]:
    """Return sizes that sum to the budget at most: as ``initial_sizes`` scales them, beside servers
    that keep ``fixed_bytes``, as ``bounded_claims`` has it. Where these take more, the sum is above
    the budget until they can be given less."""
    cut = with_minima_that_fit(servers, budget_bytes)
    fixed = bounded_claims(cut, {n: size for n, size in fixed_bytes.items() if size}, budget_bytes)
    return initial_sizes(cut, {**sizes_bytes, **fixed}, fixed, budget_bytes, least_bytes)


def tell_what_does_not_fit(servers: Sequence[ServerConfig], budget_bytes: int) -> bool:
    """Log what people have set and cannot have; return whether there is anything."""
    if sum(server.minimum_bytes for server in servers) <= budget_bytes:
        return False
    names = ", ".join(f"{one.name} {format_size(one.minimum_bytes)}" for one in servers)
    log.warning(
        "the minima (%s) do not fit the budget of %s: they are cut in proportion",
        names,
        format_size(budget_bytes),
    )
    return True
