"""The sizes before the first plan: how a node that SPREDS takes over is brought within M."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.config.node import ServerConfig
from solver_lambda.document import DocumentError


def initial_sizes(
    servers: Sequence[ServerConfig],
    known_bytes: Mapping[str, int],
    fixed: Collection[str],
    budget_bytes: int,
) -> dict[str, int]:
    """Size of each server in bytes; they sum to at most the budget.

    A server keeps the size it has (``known_bytes``), within its bounds; one that is unlimited (0)
    or unknown gets an equal share of the budget. If that is more than the budget, what each has
    above its minimum is scaled down by one factor. The servers in ``fixed`` (those that do not
    evict, and would refuse writes, or that refuse another size) keep what they have.

    Raises:
        DocumentError: a fixed server is unlimited, or the fixed ones leave too little.
    """
    share_bytes = budget_bytes // len(servers)
    minima: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for server in servers:
        name, size_bytes = server.name, known_bytes.get(server.name, 0)
        if name in fixed:
            if not size_bytes:
                raise DocumentError(
                    f"server {name}: has no maxmemory and does not evict (noeviction, or a "
                    "replica): a limit would make it refuse writes; give it one or take it out"
                )
            sizes[name] = minima[name] = size_bytes
            continue
        if server.maximum_bytes is not None:
            size_bytes = min(size_bytes or share_bytes, server.maximum_bytes)
        minima[name] = server.minimum_bytes
        sizes[name] = max(size_bytes or share_bytes, server.minimum_bytes)
    if sum(sizes.values()) <= budget_bytes:
        return sizes
    spare_bytes = budget_bytes - sum(minima.values())
    if spare_bytes < 0:
        raise DocumentError(
            f"servers that keep their size ({', '.join(sorted(fixed))}) and the others' minima "
            f"need {sum(minima.values())} bytes, more than memory.budget {budget_bytes}"
        )
    above_bytes = sum(sizes.values()) - sum(minima.values())
    return {
        name: minima[name] + (size_bytes - minima[name]) * spare_bytes // above_bytes
        for name, size_bytes in sizes.items()
    }
