"""What servers that cannot be given another size leave for the others."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.actuator import Actuator
from sidecar.servers.budget_fit import with_minima_that_fit
from sidecar.servers.initial_sizes import initial_sizes
from sidecar.servers.transitions import ServerState
from solver_lambda.documents.reader import DocumentError

log = logging.getLogger(__name__)


def claims_bytes(states: Sequence[ServerState]) -> dict[str, int]:
    """What nobody else may be promised: the planned size, or more that may be in force."""
    return {
        state.name: max(state.target_bytes, int(state.maxmemory_bytes))
        if state.maxmemory_bytes < math.inf
        else state.target_bytes
        for state in states
    }


def excess_bytes(states: Sequence[ServerState]) -> int:
    """Memory above their limits of servers that will not give it back by themselves."""
    return sum(
        state.held_bytes - int(state.maxmemory_bytes)
        for state in states
        if state.reachable and state.is_freeing and not state.still_frees
    )


def unmovable(states: Sequence[ServerState]) -> set[str]:
    """Servers that answer, have a limit, and cannot be given another now."""
    return {
        state.name
        for state in states
        if state.reachable and not state.moves and state.maxmemory_bytes < math.inf
    }


def shrunk_bytes(states: Sequence[ServerState]) -> dict[str, int]:
    """Limits when all shrinks are done that can be done, and no growth."""
    return {
        state.name: int(min(state.maxmemory_bytes, state.goal_bytes))
        if state.reachable and state.goal_bytes < math.inf
        else state.target_bytes
        for state in states
    }


class BudgetKeeper:
    """Shrinks the others when a server that cannot be shrunk leaves them too little, and for one
    that would refuse writes, because what it cannot evict takes all that it has."""

    def __init__(self, actuator: Actuator, metrics: Metrics) -> None:
        self._actuator = actuator
        self._metrics = metrics
        self._too_little: str | None = None

    def keep(self, servers: Sequence[ServerConfig]) -> None:
        """Give the actuator targets that fit, where it came as near as it can and is above M."""
        if self._actuator.looks_on or not self._actuator.settled:
            return
        budget_bytes = self._actuator.budget.bytes
        states, too_small = self._actuator.latest, self._actuator.too_small
        fixed, sizes = unmovable(states), shrunk_bytes(states)
        over = bool(fixed) and sum(sizes.values()) > budget_bytes
        if not over and not too_small:
            self._too_little = None
            return
        # Those who have not grown yet, because they have not filled, are still to grow.
        sizes = {s.name: sizes[s.name] if s.name in fixed else s.target_bytes for s in states}
        # Nothing here may wait for the actuator, which may wait for a server that hangs.
        least = self._actuator.latest_least_bytes
        sizes |= {name: least[name] for name in too_small & least.keys()}  # of two steps, perhaps
        try:
            kept = {name: sizes[name] for name in fixed}
            servers = with_minima_that_fit(servers, kept, budget_bytes)
            sizes = initial_sizes(servers, sizes, fixed, budget_bytes, least)
        except DocumentError as error:
            if self._too_little != str(error):
                self._too_little = str(error)
                self._metrics.budgets_exceeded.inc()
                log.warning("the budget is exceeded: %s", error)
            return
        if sizes == {state.name: state.target_bytes for state in states}:
            return  # it is all that there is
        self._metrics.sizes_fitted.inc()
        if too_small:
            names = ", ".join(sorted(too_small))
            log.warning("%s would refuse writes: nothing there can be evicted; it grows", names)
            self._actuator.set_targets(sizes, f"room for what {names} cannot evict")
        else:
            self._actuator.set_targets(sizes, f"room beside {', '.join(sorted(fixed))}")
