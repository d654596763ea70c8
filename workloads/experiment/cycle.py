"""``python -m workloads experiment cycle``: from an observation's PUT to the plan in force.

The deployed stack on the local emulator, real servers, a real sidecar; the function is warm. A
team changes its server's minimum before each cycle, so that each plan moves memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import boto3

from sidecar.daemon import Sidecar
from sidecar.settings.team_settings import TeamSettings
from solver_lambda.documents.keys import settings_key
from workloads.arguments import output_file, positive
from workloads.demo.loop import NODE, Cloud, controller_text, local_cloud
from workloads.local_node import LocalNode, wait_until
from workloads.table import milliseconds, text_table

HELP = "time from an observation's PUT to its plan in force, over the local cloud"
THESIS_SECONDS = 1.8  # E. Boza (2022), chapter 8: a cycle over AWS
WANTED_SECONDS = 0.5
WARM_UP_CYCLES = 2
POLL_SECONDS = 0.001
MINIMA_BYTES = (4 << 20, 8 << 20)


@dataclass(frozen=True)
class Cycle:
    """Seconds from the PUT until the sidecar has taken the plan, and until all sizes are set."""

    taken_seconds: float
    in_force_seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--cycles", type=positive, default=20, help="cycles to measure (default: 20)"
    )
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="also write the numbers here"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 if something failed."""
    try:
        with tempfile.TemporaryDirectory(prefix="spreds-cycle-") as folder:
            print("cycle: starting the emulator and deploying the stack", file=sys.stderr)
            with local_cloud([], Path(folder)) as cloud:
                os.environ.update(cloud.environment)
                cycles = measure(cloud, arguments.cycles)
    except (OSError, RuntimeError) as error:
        print(f"cycle: {error}", file=sys.stderr)
        return 1
    print(_table(cycles))
    if arguments.json:
        arguments.json.write_text(json.dumps(_as_json(cycles), indent=2) + "\n")
    return 0


def measure(cloud: Cloud, count: int) -> list[Cycle]:
    """``count`` cycles, after some to warm up.

    Raises:
        TimeoutError: a cycle did not end.
    """
    s3, outputs = boto3.client("s3"), json.loads(cloud.outputs.read_text())
    cycles = []
    with LocalNode(NODE, controller_text(cloud)) as node, node.load(), node.sidecar() as sidecar:
        for number in range(count + WARM_UP_CYCLES):
            settings = TeamSettings(
                set_by="experiment cycle",
                set_at=datetime.now(UTC).isoformat(),
                values={"minimum_bytes": MINIMA_BYTES[number % 2]},
            )
            s3.put_object(
                Bucket=outputs["ObservationsBucket"],
                Key=settings_key(NODE, "modest"),
                Body=settings.dumps(),
            )
            cycle = _next_that_moves(node, sidecar)
            if number >= WARM_UP_CYCLES:
                cycles.append(cycle)
    return cycles


def _next_that_moves(node: LocalNode, sidecar: Sidecar) -> Cycle:
    """The next cycle whose plan changes a size."""
    cycle = None
    while cycle is None:
        cycle = _next(node, sidecar)
    return cycle


def _next(node: LocalNode, sidecar: Sidecar) -> Cycle | None:
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
    return Cycle(heard - started, in_force - started)


def _table(cycles: list[Cycle]) -> str:
    rows = []
    for name, values in _columns(cycles).items():
        row = [statistics.median(values), min(values), max(values)]
        rows.append([name, *map(milliseconds, row)])
    median = statistics.median(cycle.in_force_seconds for cycle in cycles)
    verdict = "within" if median <= WANTED_SECONDS else "MORE THAN"
    return (
        f"{text_table(['from PUT to', 'median', 'least', 'most'], rows)}\n\n"
        f"{len(cycles)} warm cycles over the local emulator; {verdict} the wanted "
        f"{milliseconds(WANTED_SECONDS)}. The thesis' cycle over AWS itself took "
        f"{milliseconds(THESIS_SECONDS)}: its network and its queues are not in ours."
    )


def _columns(cycles: list[Cycle]) -> dict[str, list[float]]:
    return {
        "plan taken": [cycle.taken_seconds for cycle in cycles],
        "plan in force": [cycle.in_force_seconds for cycle in cycles],
    }


def _as_json(cycles: list[Cycle]) -> dict[str, object]:
    columns = _columns(cycles)
    return {
        "cycles": len(cycles),
        "median_seconds": {name: statistics.median(v) for name, v in columns.items()},
        "seconds": columns,
        "thesis_seconds": THESIS_SECONDS,
    }
