"""Works out the sizes that the servers are to have now, on their way to the sizes that are
planned."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.servers.sizes.handover import Holding, attainable, handover
from sidecar.servers.sizes.transitions import ServerState, is_clearly_above, left_bytes

# A little less than between two steps of an actuator that has nothing to do.
LOOK_SECONDS = 0.9


@dataclass(frozen=True)
class MemoryNeed:
    """Says what a server needs of memory, in bytes: it has filled so much, and with less than the
    least it would refuse writes."""

    used_bytes: int
    least_bytes: int


class IntermediateSizes:
    """Memory is handed over as it is filled; ``gradual=False``: the targets count at once.

    A server that cannot be given another size now, or is to give what it does not free, is left
    out: the others share what it leaves.
    Once ``begin`` was called all sizes sum to no more than the budget. A server keeps what it has
    until it can be given more.

    Attributes:
        budget_bytes: as it is now.
        gradual: as it was made.
        sizes_bytes: to have now, by server.
        bounds_bytes: the least and the most by server, as last known; a target that keeps to them
            is had at once as far as they ask.
    """

    def __init__(self, budget_bytes: int, *, gradual: bool) -> None:
        self.budget_bytes = budget_bytes
        self.gradual = gradual
        self._used_bytes: dict[str, int] = {}
        self._next_look_at = 0.0
        self.sizes_bytes: dict[str, int] = {}
        self.bounds_bytes: Mapping[str, tuple[int, int | None]] = {}

    def begin(self, sizes_bytes: Mapping[str, int]) -> None:
        """Take these sizes at once; they are within the budget."""
        self.sizes_bytes = dict(sizes_bytes)

    def retarget(self, targets_bytes: Mapping[str, int]) -> None:
        """Go to these from now on; what ``follow`` gets as targets is the same."""
        if not self.sizes_bytes:
            self.begin(targets_bytes)
        self._next_look_at = 0.0

    def under_way(self, states: Sequence[ServerState]) -> dict[str, int]:
        """Return what is attainable of the targets, of the servers that do not have that yet.

        ``states`` have the targets, here and below.
        """
        if not self.gradual:
            return {}
        # The others keep memory for one that hangs, but none of that for good.
        goals = self._goals(
            [
                one
                if one.reachable
                else replace(one, target_bytes=int(min(one.target_bytes, self._limit_bytes(one))))
                for one in states
            ]
        )
        return {name: goal for name, goal in goals.items() if self.sizes_bytes[name] != goal}

    def is_there(self, states: Sequence[ServerState]) -> bool:
        """Whether nothing is left to hand over."""
        return not self.under_way(states)

    def follow(self, states: Sequence[ServerState], needs: Mapping[str, MemoryNeed]) -> None:
        """Look whether somebody needs more than it was given, once in ``LOOK_SECONDS``, or at once
        where writes are refused."""
        self._give_what_is_held(states, needs)
        for state in states:
            if self._stays(state):  # nor may it come back to what others have by then
                size = self.sizes_bytes[state.name]
                self.sizes_bytes[state.name] = int(min(size, state.maxmemory_bytes))
        now = time.monotonic()
        if not self.gradual:
            self.sizes_bytes |= self._goals(states)
        elif now >= self._next_look_at or self._is_urgent(states, needs):
            self._next_look_at = now + LOOK_SECONDS
            holdings = self._holdings(states, needs)
            self.sizes_bytes |= handover(holdings, self._left_bytes(states))
            self._used_bytes = {name: need.used_bytes for name, need in needs.items()}

    def _give_what_is_held(
        self, states: Sequence[ServerState], needs: Mapping[str, MemoryNeed]
    ) -> None:
        """Let stuck servers give at once what others need so as not to refuse writes. One that
        holds more than its limit and frees nothing evicts nothing more with a lower one."""
        sizes = self.sizes_bytes
        missing = sum(sizes.values()) - self.budget_bytes
        for state in states:
            least = needs[state.name].least_bytes if state.name in needs else 0
            missing += max(0, min(state.target_bytes, least) - sizes[state.name]) * state.moves
        for state in states:
            if (
                state.moves
                and state.stuck
                and state.name in needs
                and is_clearly_above(needs[state.name].used_bytes, state.maxmemory_bytes)
            ):
                given = min(missing, sizes[state.name] - state.target_bytes)
                sizes[state.name] -= max(0, given)
                missing -= max(0, given)

    def _goals(self, states: Sequence[ServerState]) -> dict[str, int]:
        return attainable(self._holdings(states, {}), self._left_bytes(states))

    def _is_urgent(self, states: Sequence[ServerState], needs: Mapping[str, MemoryNeed]) -> bool:
        return any(
            self.sizes_bytes[name] < min(goal, needs[name].least_bytes)
            for name, goal in self._goals(states).items()
        )

    def _holdings(
        self, states: Sequence[ServerState], needs: Mapping[str, MemoryNeed]
    ) -> list[Holding]:
        holdings = []
        for state in states:
            if self._stays(state):
                continue
            need = needs.get(state.name, MemoryNeed(0, 0))
            before = self._used_bytes.get(state.name, need.used_bytes)
            low, high = self.bounds_bytes.get(state.name, (0, None))
            holdings.append(
                Holding(
                    state.name,
                    self.sizes_bytes[state.name],
                    state.target_bytes,
                    need.used_bytes,
                    max(0, need.used_bytes - before),
                    max(need.least_bytes, low),
                    high,
                )
            )
        return self._keeping(holdings, states)

    def _keeping(self, holdings: list[Holding], states: Sequence[ServerState]) -> list[Holding]:
        """Let those that give keep, for as long, what cannot be given to another one now."""
        # It need not be given what it already has, by hand or otherwise.
        waiting = sum(
            max(0, state.target_bytes - max(self.sizes_bytes[state.name], int(has)))
            for state in states
            if self._stays(state) and (has := self._limit_bytes(state)) < state.target_bytes
        )
        gives = {one.name: max(0, one.size_bytes - one.target_bytes) for one in holdings}
        total = sum(gives.values())
        if not waiting or not total:
            return holdings
        kept = {name: size * min(waiting, total) // total for name, size in gives.items()}
        return [
            replace(
                one,
                target_bytes=max(
                    one.target_bytes,
                    min(one.target_bytes + kept[one.name], one.allowed_bytes),
                ),
            )
            for one in holdings
        ]

    def _left_bytes(self, states: Sequence[ServerState]) -> float:
        """Return the budget without the limits of those that are left out. Nobody gives for what
        one holds above its limit: it would be given to nobody. Growth waits for it, see
        ``resolve``."""
        stay = [
            replace(state, held_bytes=0, maxmemory_bytes=self._limit_bytes(state))
            for state in states
            if self._stays(state)
        ]
        given = sum(self.sizes_bytes[s.name] for s in states if not self._stays(s))
        return left_bytes(stay, given, self.budget_bytes)

    def _limit_bytes(self, state: ServerState) -> float:
        """Return its limit. For one that hangs and was never seen this is what the others leave it.
        To give more for it would be in vain: nobody grows beside it."""
        is_known = state.reachable or state.maxmemory_bytes < math.inf
        return state.maxmemory_bytes if is_known else self.sizes_bytes[state.name]

    def _stays(self, state: ServerState) -> bool:
        gives = state.target_bytes < self.sizes_bytes[state.name]
        return not state.moves or (state.stuck and gives)
