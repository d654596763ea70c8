"""Memory changes hands as it is needed: who is to grow gets what it soon fills."""

from __future__ import annotations

from dataclasses import dataclass

# Of what a server took in since the last look, of its target, and in bytes: how much room a
# growing server has before the next look.
_TIMES_FILLED = 2.0
_TARGET_SHARE = 0.02
_LEAST_BYTES = 65_536


@dataclass(frozen=True)
class Holding:
    """One server.

    Attributes:
        maxmemory_bytes: in force.
        target_bytes: planned.
        used_bytes: what it compares with ``maxmemory``.
        filled_bytes: by how much that grew since the last look.
    """

    name: str
    maxmemory_bytes: int
    target_bytes: int
    used_bytes: int
    filled_bytes: int


def handover(holdings: list[Holding], budget_bytes: int) -> dict[str, int]:
    """The sizes to have until the next look, within the budget if the targets and sizes are.

    A server that is to grow gets as much as it will soon fill; until then the others keep what
    they have. They first give what they do not use, then in proportion to what they are to give. A
    plan that was wrong costs little that way, for nothing was evicted for memory that nobody used.
    """
    sizes = {one.name: one.maxmemory_bytes for one in holdings}
    givers = [one for one in holdings if one.target_bytes < one.maxmemory_bytes]
    for one in holdings:
        if one.target_bytes > one.maxmemory_bytes:
            room = max(
                _TIMES_FILLED * one.filled_bytes, _TARGET_SHARE * one.target_bytes, _LEAST_BYTES
            )
            wanted = max(one.maxmemory_bytes, one.used_bytes + int(room))
            sizes[one.name] = min(one.target_bytes, wanted)
    idle = {
        one.name: max(0, one.maxmemory_bytes - max(one.used_bytes, one.target_bytes))
        for one in givers
    }
    _take(sizes, idle, sum(sizes.values()) - budget_bytes)
    rest = {one.name: sizes[one.name] - one.target_bytes for one in givers}
    _take(sizes, rest, sum(sizes.values()) - budget_bytes)
    over = sum(sizes.values()) - budget_bytes
    for one in holdings:
        if over > 0 and sizes[one.name] > one.maxmemory_bytes:
            back = min(over, sizes[one.name] - one.maxmemory_bytes)
            sizes[one.name] -= back
            over -= back
    return sizes


def _take(sizes: dict[str, int], most: dict[str, int], needed_bytes: int) -> None:
    """Take what is needed, in proportion to what each may give."""
    total = sum(most.values())
    if needed_bytes <= 0 or not total:
        return
    share = min(1.0, needed_bytes / total)
    for name, size in most.items():
        sizes[name] -= min(size, -int(-share * size // 1))
