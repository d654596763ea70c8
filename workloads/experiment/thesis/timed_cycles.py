"""Cycles of a sidecar in this process, timed from the observation to the sizes in force."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sidecar.daemon import Sidecar
from sidecar.settings.settings_documents import mark_changed
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.configured_stores import make_bucket
from sidecar.storage.store import BucketStore, FolderStore
from solver_lambda.documents.keys import settings_key
from workloads.local_node import LocalNode, wait_until

POLL_SECONDS = 0.001
MOST_KEPT = 50
MINIMA_BYTES = (4 << 20, 8 << 20)
CHANGED_SERVER = "modest"


@dataclass(frozen=True)
class Way:
    """A controller, and where it looks for teams' settings.

    Attributes:
        controller: the text of ``[controller]``.
        settings: that place.
    """

    controller: str
    settings: FolderStore | BucketStore


@dataclass(frozen=True)
class TimedCycles:
    """Tells seconds since each observation was asked for.

    Attributes:
        taken_seconds: until the sidecar had taken the plan.
        in_force_seconds: until all servers had their sizes.
        stand_ins: plans that the sidecar made in the cloud's place.
    """

    taken_seconds: list[float]
    in_force_seconds: list[float]
    stand_ins: int


def cloud_settings(controller: str) -> BucketStore:
    """The bucket that the text of a node's ``[controller]`` names."""
    table = tomllib.loads(controller)["controller"]
    region, endpoint_url = table.get("region", "us-east-1"), table.get("endpoint_url")
    return make_bucket(table["observations_bucket"], region, endpoint_url)


def timed(node: LocalNode, way: Way, seed: int, count: int, warm_up: int) -> TimedCycles:
    """``count`` cycles that move memory, after some to warm up.

    Raises:
        TimeoutError: a cycle did not end.
    """
    taken, in_force = [], []
    with node.load(seed), node.sidecar(way.controller) as sidecar:
        for number in range(count + warm_up):
            # The other one than the size in force, which a sidecar before may have set.
            is_low = node.sizes_bytes()[CHANGED_SERVER] <= MINIMA_BYTES[0]
            settings = TeamSettings(
                set_by="experiment cycle",
                set_at=datetime.now(UTC).isoformat(),
                values={"minimum_bytes": MINIMA_BYTES[is_low]},
            )
            name = sidecar.config.node
            way.settings.put(settings_key(name, CHANGED_SERVER), settings.dumps())
            mark_changed(way.settings, name, CHANGED_SERVER)
            cycle = _next_that_moves(node, sidecar)
            if number >= warm_up:
                taken.append(cycle[0])
                in_force.append(cycle[1])
        return TimedCycles(taken, in_force, sidecar.metrics.snapshot().get("stand_ins", 0))


def _next_that_moves(node: LocalNode, sidecar: Sidecar) -> tuple[float, float]:
    """The next cycle whose plan changes a size.

    Raises:
        TimeoutError: no plan of many does.
    """
    for _ in range(MOST_KEPT):
        cycle = _next(node, sidecar)
        if cycle is not None:
            return cycle
    raise TimeoutError(f"{MOST_KEPT} plans, one after the other, changed no size")


def _next(node: LocalNode, sidecar: Sidecar) -> tuple[float, float] | None:
    """The next cycle; ``None`` if its plan keeps all sizes."""

    def until(condition: Callable[[], object]) -> float:
        wait_until(condition, sidecar.metrics.snapshot, POLL_SECONDS)
        return time.monotonic()

    observed, taken, before = sidecar.last_observation, sidecar.cycles, node.sizes_bytes()
    started = until(lambda: sidecar.last_observation is not observed)
    heard = until(lambda: sidecar.cycles > taken)
    assert sidecar.last_plan is not None
    planned = {server.name: server.maxmemory_bytes for server in sidecar.last_plan.servers}
    if planned == before:
        return None
    in_force = until(lambda: node.sizes_bytes() == planned)
    return heard - started, in_force - started
