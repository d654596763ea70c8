"""What servers that cannot be given another size leave for the others."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.actuator import Actuator
from sidecar.servers.budget_fit import with_minima_that_fit
from sidecar.servers.initial_sizes import initial_sizes
from sidecar.servers.transitions import ServerState
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


def claims_bytes(states: Sequence[ServerState]) -> dict[str, int]:
    """What nobody else may be promised: the planned size, or more that may be in force; but not
    what somebody set by hand and that is to be put back."""
    return {state.name: _claim_bytes(state) for state in states}


def _claim_bytes(state: ServerState) -> int:
    if state.contested or state.maxmemory_bytes == math.inf:
        return state.target_bytes
    return max(state.target_bytes, int(state.maxmemory_bytes))


def excess_bytes(states: Sequence[ServerState]) -> int:
    """Memory above their limits of servers that will not give it back by themselves."""
    return sum(
        state.held_bytes - int(state.maxmemory_bytes)
        for state in states
        if state.reachable and state.is_freeing and not state.still_frees
    )


def unmovable(states: Sequence[ServerState]) -> set[str]:
    """Servers that answer, have a limit, and cannot be given another now; what somebody has set by
    hand and is to be put back is no reason to take from the others, however long that takes."""
    return {
        state.name
        for state in states
        if state.reachable
        and not state.moves
        and not state.contested
        and state.maxmemory_bytes < math.inf
    }


def hanging(states: Sequence[ServerState]) -> set[str]:
    """Servers that do not answer and may have more than they are to have."""
    return {
        state.name
        for state in states
        if not state.reachable and _claim_bytes(state) > state.target_bytes
    }


def shrunk_bytes(states: Sequence[ServerState]) -> dict[str, int]:
    """Limits when all shrinks are done that can be done, and no growth. One that does not answer
    has what it had, or gets what it is to have."""
    return {state.name: _shrunk_bytes(state) for state in states}


def _shrunk_bytes(state: ServerState) -> int:
    if not state.reachable or state.contested or state.goal_bytes == math.inf:
        return _claim_bytes(state)
    return int(min(state.maxmemory_bytes, state.goal_bytes))


def not_put_back(states: Sequence[ServerState]) -> dict[str, str]:
    """Of each server with a size that somebody set by hand, and that cannot be put back now, a
    sentence."""
    return {
        state.name: f"{state.name} has {_limit_words(state)}, which somebody set by hand and which "
        f"cannot be put back while it {'refuses' if state.refuses else 'does not answer'}; the "
        "others keep their sizes"
        for state in states
        if state.contested and not state.moves
    }


def to_put_back(states: Sequence[ServerState]) -> dict[str, int]:
    """The planned sizes of servers that have another, which somebody set by hand."""
    return {state.name: state.target_bytes for state in states if state.contested}


def _limit_words(state: ServerState) -> str:
    size_bytes = state.maxmemory_bytes
    return format_size(size_bytes) if size_bytes < math.inf else "no limit"


class BudgetKeeper:
    """Shrinks the others when a server that cannot be shrunk leaves them too little, and for one
    that would refuse writes, because what it cannot evict takes all that it has."""

    def __init__(self, actuator: Actuator, metrics: Metrics) -> None:
        self._actuator = actuator
        self._metrics = metrics
        self._too_little: str | None = None
        self._not_put_back: set[str] = set()

    def keep(self, servers: Sequence[ServerConfig]) -> None:
        """Give the actuator targets that fit, where it came as near as it can and is above M."""
        if self._actuator.looks_on or not self._actuator.settled:
            return
        budget_bytes = self._actuator.budget.bytes
        states, too_small = self._actuator.latest, self._actuator.too_small
        self._tell_not_put_back(not_put_back(states))
        fixed, hang, sizes = unmovable(states), hanging(states), shrunk_bytes(states)
        over = bool(fixed | hang) and sum(sizes.values()) > budget_bytes
        if not over and not too_small:
            self._too_little = None
            return
        targets = {state.name: state.target_bytes for state in states}
        # Those who have not grown yet, because they have not filled, are still to grow.
        sizes = {**targets, **{name: sizes[name] for name in fixed | hang}}
        # Nothing here may wait for the actuator, which may wait for a server that hangs.
        least = self._actuator.latest_least_bytes
        sizes |= {name: least[name] for name in too_small & least.keys()}  # of two steps, perhaps
        try:
            kept = {name: sizes[name] for name in fixed}
            servers = with_minima_that_fit(servers, kept, budget_bytes)
            sizes |= _within_reason(servers, sizes, fixed, targets, hang, budget_bytes, least)
            sizes = initial_sizes(servers, sizes, fixed | hang, budget_bytes, least)
        except DocumentError as error:
            if self._too_little != str(error):
                self._too_little = str(error)
                self._metrics.budgets_exceeded.inc()
                log.warning("the budget is exceeded: %s", error)
            return
        sizes |= {name: targets[name] for name in hang}  # where it is brought when it answers
        if sizes == targets:
            return  # it is all that there is
        self._metrics.sizes_fitted.inc()
        if too_small:
            names = ", ".join(sorted(too_small))
            log.warning("%s would refuse writes: nothing there can be evicted; it grows", names)
            self._actuator.set_targets(sizes, f"room for what {names} cannot evict")
        else:
            self._actuator.set_targets(sizes, f"room beside {', '.join(sorted(fixed | hang))}")

    def _tell_not_put_back(self, words: Mapping[str, str]) -> None:
        for name in words.keys() - self._not_put_back:
            self._metrics.budgets_exceeded.inc()
            log.warning("the budget may be exceeded: %s", words[name])
        self._not_put_back = set(words)


def _within_reason(
    servers: Sequence[ServerConfig],
    sizes_bytes: Mapping[str, int],
    fixed: Collection[str],
    targets_bytes: Mapping[str, int],
    hang: Collection[str],
    budget_bytes: int,
    least_bytes: Mapping[str, int],
) -> dict[str, int]:
    """What those that ``hang`` count with: all that they have, or as much of that as leaves the
    others what they need at least. A server that soon goes on is no reason to empty the rest."""
    spare_bytes = budget_bytes
    for server in servers:
        name = server.name
        if name in hang:
            spare_bytes -= targets_bytes[name]
        elif name in fixed:
            spare_bytes -= sizes_bytes[name]
        else:
            spare_bytes -= max(server.minimum_bytes, least_bytes.get(name, 0))
    counted: dict[str, int] = {}
    for name in sorted(hang):
        more = max(0, min(sizes_bytes[name] - targets_bytes[name], spare_bytes))
        counted[name] = targets_bytes[name] + more
        spare_bytes -= more
    return counted
