"""Memory changes hands as it is needed: who is to grow gets what it soon fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Room of a growing server: this many times what it took in since the last look, this share of its
# target, or this, whichever is most.
_TIMES_FILLED = 2
_TARGET_SHARE = 0.02
_LEAST_ROOM_BYTES = 64 << 10
# A server with more than this share of its room left gets no more yet.
_ENOUGH_ROOM_RATIO = 0.5
# Servers that give are asked for at least this share of what they have: rarely, not each time.
_PORTION_RATIO = 0.02


@dataclass(frozen=True)
class Holding:
    """Describes one server that can be given another size.

    Attributes:
        size_bytes: that it has been given so far.
        target_bytes: planned.
        used_bytes: what it compares with ``maxmemory``.
        filled_bytes: by how much that grew since the last look.
        least_bytes: to have at once: with less it would refuse writes, or be below its minimum.
        most_bytes: its maximum, which counts at once; ``None``: it has none.
    """

    name: str
    size_bytes: int
    target_bytes: int
    used_bytes: int
    filled_bytes: int
    least_bytes: int = 0
    most_bytes: int | None = None

    @property
    def allowed_bytes(self) -> int:
        """Return what it may keep of its size, however little others need; a plan by another
        maximum says nothing."""
        if self.most_bytes is None or self.target_bytes > self.most_bytes:
            return self.size_bytes
        return min(self.size_bytes, self.most_bytes)

    @property
    def wanted_bytes(self) -> int:
        """Return the size in which it has room until the next look."""
        room = max(
            _TIMES_FILLED * self.filled_bytes,
            int(_TARGET_SHARE * self.target_bytes),
            _LEAST_ROOM_BYTES,
        )
        has_enough = self.size_bytes - self.used_bytes > _ENOUGH_ROOM_RATIO * room
        return max(self.size_bytes if has_enough else self.used_bytes + room, self.least_bytes)


def attainable(holdings: Sequence[Holding], budget_bytes: float) -> dict[str, int]:
    """Return the targets, or what can be had of them: where they exceed the budget, all who are to
    grow grow less, and at worst nobody grows."""
    goals = {one.name: one.target_bytes for one in holdings}
    growth = {one.name: max(0, one.target_bytes - one.size_bytes) for one in holdings}
    _take(goals, growth, sum(goals.values()) - budget_bytes)
    return goals


def handover(holdings: Sequence[Holding], budget_bytes: float) -> dict[str, int]:
    """Return the sizes to have until the next look, between those of now and what is attainable.

    A server that is to grow gets as much as it will soon fill; until then the others keep what
    they have. They first give what they do not use, then in proportion to what they are to give. A
    plan that was wrong costs little that way, for nothing was evicted for memory that nobody used.
    Bounds count at once.

    The sizes sum to no more than what is attainable does, nor than ``budget_bytes``; where that is
    less than the sizes that must be kept, they are nowhere above the targets.
    """
    goals = attainable(holdings, budget_bytes)
    most_bytes = min(budget_bytes, sum(goals.values()))
    sizes = {one.name: one.allowed_bytes for one in holdings}
    givers = [one for one in holdings if goals[one.name] < one.size_bytes]
    for one in holdings:
        if goals[one.name] > one.size_bytes:
            sizes[one.name] = min(goals[one.name], max(one.size_bytes, one.wanted_bytes))
    grows = any(sizes[one.name] > one.size_bytes for one in holdings)
    portion = int(_PORTION_RATIO * sum(one.size_bytes for one in givers)) if grows else 0
    idle = {
        one.name: max(0, sizes[one.name] - max(one.used_bytes, goals[one.name])) for one in givers
    }
    _take(sizes, idle, sum(sizes.values()) - most_bytes, portion)
    rest = {one.name: sizes[one.name] - goals[one.name] for one in givers}
    _take(sizes, rest, sum(sizes.values()) - most_bytes, portion)
    return sizes


def _take(
    sizes: dict[str, int], most: Mapping[str, int], needed_bytes: float, least_bytes: int = 0
) -> None:
    """Take what is needed, and if anything then ``least_bytes``, in proportion to what each may
    give."""
    total = sum(most.values())
    if needed_bytes <= 0 or not total:
        return
    taken = int(min(total, max(needed_bytes, least_bytes)))
    for name, size in most.items():
        sizes[name] -= -(-size * taken // total)
