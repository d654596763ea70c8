"""Leads from the sizes that the servers have to the sizes of a plan, in small safe steps.

A resolver: it looks at the present state, however it came about, and yields the transitions that
are allowed now. Nothing is remembered between two calls, so a sidecar that was interrupted
anywhere goes on from what it finds.

What always holds, whichever prefix of the transitions was carried out:

* once the sum of ``maxmemory`` is at most M it never exceeds M again, and until then it only falls;
* a server grows only into memory that nobody is limited to *and* nobody else still holds; but one
  that would refuse writes does not wait for what others hold above their limits;
* a server that shrinks has tenacity 0 first, where what it had can be kept on file. It gets its own
  back when it is done;
* a server that does not evict keeps the size it has, and one that refuses is left alone: what they
  have stays theirs, and the others go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Redis' used_memory moves a little around maxmemory (clients' buffers, one command's growth).
SLACK_BYTES = 1 << 20
SLACK_RATIO = 0.01
# A partial growth smaller than this waits for more to be freed.
LEAST_GROWTH_RATIO = 0.02


def is_clearly_above(held_bytes: float, maxmemory_bytes: float) -> bool:
    """Whether a server holds more than its limit, by more than may pass by itself."""
    return held_bytes > maxmemory_bytes * (1 + SLACK_RATIO) + SLACK_BYTES


@dataclass(frozen=True)
class ServerState:
    """Describes one server as it is, and the size that it is to have. Sizes in bytes.

    Attributes:
        maxmemory_bytes: the most that may be in force (``math.inf``: unlimited). For a server
            that does not answer it is the last known or, if a growth may have reached it, that.
        held_bytes: memory that it really takes: ``used_memory``, or more while resident memory
            that a shrink should free has not come back.
        target_bytes: where it is to be brought: the size that is planned, or one on the way there.
        reachable: it answered.
        in_shrink_mode: it has the settings for shrinking (tenacity 0).
        evicts: a full server makes room. One that does not would refuse writes after a shrink.
        refuses: it took no setting lately, and is not to be asked again yet.
        stuck: it is freeing, but has freed nothing for long.
        held: somebody gave it its size by hand, and it stays.
        contested: somebody gave it its size by hand, and it is to be put back: it takes nothing
            from the others, also while that cannot be done.
        floor_bytes: a shrink goes no further now, though its target may be below.
        most_counted_bytes: of one that cannot be given another size, what others make room for.
        least_bytes: with less it would refuse writes.
        was_at_limit: see ``HeldMemory``.
        gone: its process has been gone for a while; it counts with its target until it is back.
    """

    name: str
    maxmemory_bytes: float
    held_bytes: int
    target_bytes: int
    reachable: bool = True
    in_shrink_mode: bool = False
    evicts: bool = True
    refuses: bool = False
    stuck: bool = False
    held: bool = False
    contested: bool = False
    floor_bytes: int = 0
    most_counted_bytes: float = math.inf
    least_bytes: int = 0
    was_at_limit: bool = False
    gone: bool = False

    @property
    def moves(self) -> bool:
        """Whether it can be given another size now."""
        return self.reachable and self.evicts and not self.refuses and not self.held

    @property
    def goal_bytes(self) -> float:
        """Return the size to which it can be brought now."""
        if not self.moves:
            return self.maxmemory_bytes
        return max(self.target_bytes, min(self.floor_bytes, self.maxmemory_bytes))

    @property
    def is_paced(self) -> bool:
        """Whether it goes on shrinking a little later."""
        return self.moves and self.goal_bytes > self.target_bytes

    @property
    def reserved_bytes(self) -> float:
        """Return what nobody else may have."""
        return self.held_bytes if self.is_freeing else self.maxmemory_bytes

    @property
    def counted_bytes(self) -> float:
        """Return what others make room for. What one takes above it, it takes from nobody: the
        budget is exceeded."""
        if self.moves:
            return self.reserved_bytes
        if not (self.reachable or self.contested):
            # A server that hangs may have grown by what we sent ourselves.
            return min(self.reserved_bytes, max(self.most_counted_bytes, self.target_bytes))
        if self.maxmemory_bytes == math.inf:
            return self.target_bytes
        most = self.target_bytes if self.contested else self.most_counted_bytes
        return self.reserved_bytes - max(0, self.maxmemory_bytes - most)

    @property
    def takes_more(self) -> bool:
        """Whether it has more than others make room for."""
        return self.reserved_bytes > self.counted_bytes

    @property
    def is_freeing(self) -> bool:
        """Whether it holds clearly more than its limit."""
        return is_clearly_above(self.held_bytes, self.maxmemory_bytes)

    @property
    def is_done(self) -> bool:
        """Whether it can be put back to normal after a shrink."""
        can_be = self.reachable and not self.refuses
        return can_be and not self.still_frees and not self.is_paced

    @property
    def still_frees(self) -> bool:
        """Whether it is worth waiting for."""
        return self.is_freeing and self.evicts and not self.stuck

    @property
    def still_shrinks(self) -> bool:
        """Whether what it frees is what its last shrink asks of it."""
        return self.reachable and self.still_frees and not self.was_at_limit


@dataclass(frozen=True)
class Transition:
    """Describes one step for one server."""

    name: str


@dataclass(frozen=True)
class EnterShrinkMode(Transition):
    """Let evictions not hold up clients in the shrink to come."""


@dataclass(frozen=True)
class Shrink(Transition):
    """Lower ``maxmemory``."""

    from_bytes: float
    to_bytes: int


@dataclass(frozen=True)
class Grow(Transition):
    """Raise ``maxmemory``."""

    from_bytes: int
    to_bytes: int


@dataclass(frozen=True)
class LeaveShrinkMode(Transition):
    """Put back what ``EnterShrinkMode`` changed, after a shrink."""


def resolve(states: Sequence[ServerState], budget_bytes: int) -> Iterator[Transition]:
    """Yield the transitions that are allowed in these states, to be carried out in this order.

    If one fails, nobody may grow: read the states again and start over.

    Raises:
        ValueError: the targets themselves exceed the budget.
    """
    if sum(state.target_bytes for state in states) > budget_bytes:
        raise ValueError("the targets exceed the budget")
    for state in states:
        if state.maxmemory_bytes > state.goal_bytes:
            if not state.in_shrink_mode:
                yield EnterShrinkMode(state.name)
            yield Shrink(state.name, state.maxmemory_bytes, int(state.goal_bytes))
        elif state.in_shrink_mode and state.is_done:
            yield LeaveShrinkMode(state.name)
    yield from _growths(states, budget_bytes)


def left_bytes(stay: Sequence[ServerState], given_bytes: int, budget_bytes: int) -> float:
    """Return what is left of the budget beside servers that keep their sizes. Where these take more
    than they count with, the others keep what they were given, and may exchange that."""
    left = budget_bytes - sum(state.reserved_bytes for state in stay)
    if not any(state.takes_more for state in stay):
        return left
    counted = sum(state.counted_bytes for state in stay)
    return max(left, min(budget_bytes - counted, given_bytes))


def _growths(states: Sequence[ServerState], budget_bytes: int) -> Iterator[Transition]:
    given = sum(state.target_bytes for state in states if state.moves)
    free = left_bytes([state for state in states if not state.moves], given, budget_bytes)
    above = {state.name: 0.0 for state in states}
    for state in states:
        if state.moves:
            limit_bytes = min(state.maxmemory_bytes, state.goal_bytes)
            after = replace(state, maxmemory_bytes=limit_bytes)
            free -= after.reserved_bytes
            if not after.still_frees:
                above[state.name] = after.reserved_bytes - limit_bytes
    unlimited = free + sum(above.values())  # what nobody is limited to, whoever holds it
    # One that refuses writes also gets what is still being freed: a client may hold that for long.
    limits = sum(min(state.maxmemory_bytes, state.goal_bytes) for state in states)
    for state in states:
        missing = state.goal_bytes - state.maxmemory_bytes
        if not missing > 0:  # also of two that are unlimited
            continue
        # What it holds above its limit and does not free, as a replica, waits for nobody.
        own = above[state.name]
        growth = min(missing, own + max(free, 0.0) if own else free, unlimited)
        needed = min(missing, state.least_bytes - state.maxmemory_bytes)
        growth = max(growth, min(needed, budget_bytes - limits))
        if growth < missing and growth < LEAST_GROWTH_RATIO * state.target_bytes:
            continue
        now, growth = int(state.maxmemory_bytes), math.floor(growth)
        yield Grow(state.name, now, now + growth)
        free -= max(0.0, growth - own)
        unlimited -= growth
        limits += growth
