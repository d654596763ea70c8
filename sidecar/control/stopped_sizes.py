"""Says which sizes servers have when a plan that is under way stops."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping

from sidecar.servers.actuator import Actuator
from sidecar.state.sidecar_state import SidecarState


def stopped_sizes(
    state: SidecarState,
    in_force_bytes: Mapping[str, int],
    actuator: Actuator,
    contested: Container[str],
) -> dict[str, int]:
    """Return what servers have when a plan that is under way stops. Each that is being given
    another size keeps what it has, but no farther than where it was brought from and to. Nobody
    wants what somebody has set since (``contested``), or a restarted server's own file. There are
    none where sizes are on the way for what somebody needs, or back from there: that is no plan."""
    targets, room = state.targets_bytes, state.room
    if room is not None and room.made_bytes == targets and not actuator.convergence.is_by_plan:
        return {}
    now = actuator.intermediate_sizes.sizes_bytes
    before = state.control.before_plan_bytes
    last_known = {
        one.name: int(one.maxmemory_bytes)
        for one in actuator.latest
        if not one.reachable and one.maxmemory_bytes < math.inf
    }
    stopped = {}
    for name, size in {**in_force_bytes, **last_known}.items():
        if not size or name in state.control.held or name in contested:
            continue
        target = targets[name]
        ends = (target, now.get(name) or target, before.get(name) or target)
        stopped[name] = min(max(size, min(ends)), max(ends))
    return {name: size for name, size in stopped.items() if size != targets[name]}
