"""Which sizes a plan of shares means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solver_lambda.documents.observation import Observation

UNIT_BYTES = 1 << 16


def divided(budget_bytes: int, shares: Sequence[int]) -> list[int]:
    """The budget in these proportions, in whole units, none of them left over the budget."""
    return [budget_bytes * share // sum(shares) // UNIT_BYTES * UNIT_BYTES for share in shares]


def wanted_sizes(observation: Observation, shares: Mapping[str, int]) -> dict[str, int]:
    """The same for an observation, by server in its order: a server that keeps its size keeps it,
    nobody gets less than its minimum, and the others share what is left. Where that cannot be, all
    keep what they have."""
    before = {server.name: server.maxmemory_bytes for server in observation.servers}
    least = {server.name: server.minimum_bytes for server in observation.servers}
    fixed = {s.name: s.maxmemory_bytes for s in observation.servers if s.keep_reason is not None}
    while True:
        free = [name for name in before if name not in fixed]
        left_bytes = observation.budget_bytes - sum(fixed.values())
        if left_bytes < 0:
            return before
        sizes = divided(left_bytes, [shares[name] for name in free]) if free else []
        found = dict(zip(free, sizes, strict=True))
        below = {name: least[name] for name in free if found[name] < least[name]}
        if not below:
            together = {**found, **fixed}
            return {name: together[name] for name in before}
        fixed |= below
