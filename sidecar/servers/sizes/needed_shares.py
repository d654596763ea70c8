"""Says how much of the budget one server may need: the others keep half of an equal share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import least_maxmemory_bytes
from sidecar.servers.sizes.budget_fit import within_maxima
from sidecar.servers.sizes.memory_budget import MemoryBudget


def bounded_needs(
    servers: Sequence[ServerConfig],
    needed_bytes: Mapping[str, int],
    budget: MemoryBudget,
) -> dict[str, int]:
    """Return what servers need so as not to refuse writes, as far as others give it. Each gets at
    most the operator's ``maximum``, and so much that the others have half of an equal share left.
    Most of it is what clients make, and no client of one server may empty the caches of the
    others."""
    most_bytes = most_needed_bytes(len(servers), budget.bytes, budget.ceiling_bytes)
    needed = {name: min(size, most_bytes) for name, size in needed_bytes.items()}
    return within_maxima(servers, needed)


def whole_needs(
    servers: Sequence[ServerConfig],
    readings: Mapping[str, ServerReading],
    least_bytes: Mapping[str, int],
    budget: MemoryBudget,
) -> dict[str, int]:
    """Return what servers need at least, with headroom also for those that work with less now.
    Where all that exceeds the budget, each gets the same part of it at each look. A part of what
    one has now would not do: the others took some each time, until it was too little."""
    whole = {
        name: max(size, least_maxmemory_bytes(0, one.unevictable_bytes))
        for name, size in least_bytes.items()
        if (one := readings.get(name)) and one.evicts
    }
    return bounded_needs(servers, {**least_bytes, **whole}, budget)


def half_share_bytes(servers: int, budget_bytes: int) -> int:
    """Return half of an equal share of the budget: what needs of others leave each of so many
    servers."""
    return budget_bytes // (2 * max(1, servers))


def most_needed_bytes(servers: int, budget_bytes: int, ceiling_bytes: int) -> int:
    """Return how much one of so many servers may need at most. Each other one keeps half of an
    equal share of ``ceiling_bytes``, the budget without regard to resident memory. An equal share
    of what there is now is allowed in any case."""
    others_bytes = (servers - 1) * ceiling_bytes // (2 * max(1, servers))
    return max(budget_bytes // max(1, servers), budget_bytes - others_bytes)


def too_large(
    found_bytes: Mapping[str, int],
    planned_bytes: Mapping[str, int],
    fixed: Collection[str],
    budget_bytes: int,
) -> dict[str, int]:
    """Return what counts, by server, of sizes that leave the others less than half of an equal
    share: what is planned, or that limit. No size is too large while all that were found fit the
    budget. It may be a slip by hand that nobody saw, which is no reason to empty the others.
    ``fixed``: servers that keep theirs."""
    most_bytes = most_needed_bytes(len(found_bytes), budget_bytes, budget_bytes)
    if sum(found_bytes.values()) <= budget_bytes:
        return {}
    return {
        name: min(most_bytes, planned_bytes.get(name, most_bytes))
        for name, size in found_bytes.items()
        if size > most_bytes and name not in fixed
    }
