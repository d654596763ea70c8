"""Has what is known of each server that answers, as an observation begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.config.node import ServerConfig
from sidecar.curves.monitor import Estimate
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.reserved_memory import reserved_for_unseen
from sidecar.servers.sizes.transitions import ServerState
from sidecar.settings.team_settings import TeamSettings


@dataclass(frozen=True)
class ServerSnapshot:
    """Has what is known of one server that answers.

    Attributes:
        estimate: from its samples, ``None`` if there is none yet.
        changed_at_seconds: Unix time of its last change by a plan.
        kept: why it cannot be given another size now, ``None`` if it can.
        waits: why it is not to be given another one, unless it breaks a bound.
        unevictable_bytes: most of its memory in the window that no eviction frees.
        lasting_bytes, least_used_bytes: the least of that, and of what it used.
        has_no_limit: ``reading`` has what it uses in place of its ``maxmemory`` of 0.
        silent_seconds: how long no sample has come.
        sheltered_bytes: the least that it is to keep while resident memory takes of the budget.
        installed_bytes: its ``maxmemory`` before SPREDS set any; 0 is no limit.
        was_replica: no plan has gone by its own curve since.
    """

    config: ServerConfig
    reading: ServerReading
    estimate: Estimate | None
    settings: TeamSettings | None
    changed_at_seconds: float | None
    kept: str | None = None
    waits: str | None = None
    unevictable_bytes: int = 0
    lasting_bytes: int = 0
    least_used_bytes: int = 0
    has_no_limit: bool = False
    silent_seconds: float = 0.0
    sheltered_bytes: int = 0
    installed_bytes: int | None = None
    was_replica: bool = False

    @property
    def measured_seconds(self) -> float | None:
        """Return its backend's latency. A look sees a miss only by its fill."""
        if self.estimate is None or self.reading.is_looked_at:
            return None
        return self.estimate.measured_backend_latency_seconds


def resumed(
    seen: list[ServerSnapshot], held: Collection[str], targets_bytes: Mapping[str, int]
) -> list[ServerSnapshot]:
    """An order may come while servers are read: who is not ``held`` at a size by hand any more has
    what is planned, and takes part."""
    return [
        replace(one, kept=None, reading=replace(one.reading, maxmemory_bytes=targets_bytes[name]))
        if (one.kept or "").startswith("held:") and (name := one.config.name) not in held
        else one
        for one in seen
    ]


def planned_bytes(seen: Sequence[ServerSnapshot]) -> dict[str, int]:
    """Return what a plan counts from, by server."""
    return {one.config.name: one.reading.maxmemory_bytes for one in seen}


def that_fit(
    seen: list[ServerSnapshot],
    readings: Mapping[str, ServerReading],
    states: Sequence[ServerState],
    budget_bytes: int,
) -> list[ServerSnapshot]:
    """Let all count with no more than they have (``readings``) where what some are to get may not
    be free. One that is not seen may still have a part of it, as it hangs."""
    sizes = planned_bytes(seen)
    if sum(sizes.values()) + reserved_for_unseen(states, sizes, budget_bytes) <= budget_bytes:
        return seen
    has = {name: one.maxmemory_bytes or sizes.get(name, 0) for name, one in readings.items()}
    return [
        replace(one, reading=replace(one.reading, maxmemory_bytes=min(size, has.get(name, size))))
        for one, (name, size) in zip(seen, sizes.items(), strict=True)
    ]
