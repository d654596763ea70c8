"""Cycles of a sidecar in this process, timed from the observation to the sizes in force."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import boto3

from sidecar.daemon import Sidecar
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.store import FolderStore
from solver_lambda.documents.keys import settings_key
from workloads.local_node import LocalNode, wait_until

POLL_SECONDS = 0.001
MOST_KEPT = 50
MINIMA_BYTES = (4 << 20, 8 << 20)
CHANGED_SERVER = "modest"

PutSettings = Callable[[str, bytes], object]


@dataclass(frozen=True)
class Way:
    """A controller, and where it looks for teams' settings.

    Attributes:
        controller: the text of ``[controller]``.
        put: stores a document there by its key.
    """

    controller: str
    put: PutSettings


@dataclass(frozen=True)
class TimedCycles:
    """Seconds since each observation was asked for.

    Attributes:
        taken_seconds: until the sidecar had taken the plan.
        in_force_seconds: until all servers had their sizes.
        stand_ins: plans that the sidecar made in the cloud's place.
    """

    taken_seconds: list[float]
    in_force_seconds: list[float]
    stand_ins: int


def cloud_settings(controller: str) -> PutSettings:
    """Puts into the bucket that the text of a node's ``[controller]`` names."""
    bucket = tomllib.loads(controller)["controller"]["observations_bucket"]
    s3 = boto3.client("s3")
    return lambda key, body: s3.put_object(Bucket=bucket, Key=key, Body=body)


def folder_settings(folder: Path) -> PutSettings:
    """Puts into the embedded controller's folder."""
    return FolderStore(folder).put


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
            way.put(settings_key(sidecar.config.node, CHANGED_SERVER), settings.dumps())
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
