"""What stands still: an observation that is late, and a server that has still to shrink."""

from __future__ import annotations

import math
import time

from sidecar.observation_cycle import LONGEST_UNREST_SECONDS, ObservationCycle
from sidecar.servers.actuator import Actuator
from solver_lambda.documents.units import format_duration, format_size

# A plan that shrinks a server in portions may take a cycle or two.
MOST_CYCLES = 3


def standstill(cycle: ObservationCycle, actuator: Actuator) -> list[str]:
    """A sentence each."""
    found = []
    longest_seconds = cycle.config.cycle.maximum_age_seconds
    late_seconds = time.time() - cycle.latest_at_seconds
    if late_seconds > max(longest_seconds, 2 * LONGEST_UNREST_SECONDS):
        found.append(
            f"the observation is {format_duration(late_seconds)} late, more than a whole cycle: no "
            "plan is made meanwhile; the log says what it waits for"
        )
    if actuator.looks_on:
        return found
    sizes = actuator.intermediate_sizes.sizes_bytes
    for state in actuator.latest:
        since = cycle.shrinking_since.get(state.name, math.inf)
        waited_seconds = time.monotonic() - since
        size = sizes.get(state.name, 0)
        if waited_seconds > MOST_CYCLES * longest_seconds and size < state.maxmemory_bytes:
            found.append(
                f"{state.name} has been on its way to {format_size(size)} for "
                f"{format_duration(waited_seconds)}, and has "
                f"{format_size(int(state.maxmemory_bytes))}: the others wait for that memory; see "
                "its size, policy and log"
            )
    return found
