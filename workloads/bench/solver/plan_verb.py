"""How long a whole plan takes, from an observation on a fine grid, and how much memory."""

from __future__ import annotations

import argparse
import dataclasses
import time
import tracemalloc
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.planning.planner import make_plan
from workloads.arguments import (
    add_figures,
    add_traces,
    positive,
    seed,
    whole_numbers,
    write_json,
)
from workloads.bench.solver.partition_instances import (
    RANDOM_CURVES,
    TRACES,
    MakeCurve,
    curves_of_traces,
    node_observation,
)
from workloads.table import text_table

HELP = (
    "Processor time of whole plans, and the peak of the memory that making them takes beside the "
    "observation: 64 GiB in units of 1 MiB, with the cost of moving, for each kind of curve by "
    "itself; and with steps, so that the way and the step are two problems. Observations are "
    "planned in turn, with the default settings."
)
UNITS = 65_536
OBJECT_BYTES = 800.0
_SERVERS = (3, 7, 8, 20, 64, 100)
_INSTANCES = 10
_SETTINGS = {"default": PlanningSettings(), "steps": PlanningSettings(maximum_step_ratio=0.1)}


class Row(NamedTuple):
    """Holds what was measured of one kind of node.

    Attributes:
        seconds: of processor time, shape (instances,).
        memory_bytes: the peak of what the plan of the first one allocated.
        worst_gap_ratio: of all plans.
    """

    curves: str
    servers: int
    settings: str
    seconds: list[float]
    memory_bytes: int
    worst_gap_ratio: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--servers",
        type=whole_numbers,
        default=_SERVERS,
        metavar="N,N",
        help="numbers of servers (default: %(default)s)",
    )
    parser.add_argument(
        "--instances",
        type=positive,
        default=_INSTANCES,
        help="observations of each kind (default: %(default)s)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the instances (default: 0)")
    add_traces(parser, *TRACES)
    add_figures(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; exit code 0."""
    kinds: dict[str, MakeCurve] = dict(RANDOM_CURVES)
    from_traces = curves_of_traces(arguments.traces)
    if from_traces:
        kinds["traces"] = from_traces
    rows = list(measure(kinds, arguments))
    print(table(rows))
    write_json(arguments.json, [row._asdict() for row in rows])
    return 0


def measure(kinds: dict[str, MakeCurve], arguments: argparse.Namespace) -> Iterator[Row]:
    """Measure all rows, one kind of node after the other."""
    for curves, make_curve in kinds.items():
        for servers in arguments.servers:
            rows = {name: Row(curves, servers, name, [], 0, 0.0) for name in _SETTINGS}
            for number in range(arguments.instances):
                generator = np.random.default_rng((arguments.seed, servers, number))
                drawn = node_observation(generator, servers, UNITS, make_curve, OBJECT_BYTES)
                for name, planning in _SETTINGS.items():
                    observation = dataclasses.replace(drawn, planning=planning)
                    rows[name] = _with_plan(rows[name], observation)
            yield from rows.values()


def _with_plan(row: Row, observation: Observation) -> Row:
    """The row with one observation more."""
    started = time.process_time()
    plan = make_plan(observation, now_seconds=0.0)
    seconds = time.process_time() - started
    memory_bytes = row.memory_bytes or _peak_bytes(observation)
    return row._replace(
        seconds=[*row.seconds, seconds],
        memory_bytes=memory_bytes,
        worst_gap_ratio=max(row.worst_gap_ratio, plan.optimality_gap),
    )


def _peak_bytes(observation: Observation) -> int:
    """Looking at each allocation takes time, so this is a plan of its own."""
    tracemalloc.start()
    make_plan(observation, now_seconds=0.0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak_bytes


def table(rows: list[Row]) -> str:
    """The rows, in milliseconds, megabytes and per cent."""
    header = ["curves", "servers", "settings", "plans", "CPU ms: median", "worst", "peak MB"]
    header.append("worst gap")
    return text_table(
        header,
        [
            [
                row.curves,
                f"{row.servers}",
                row.settings,
                f"{len(row.seconds)}",
                f"{np.median(row.seconds) * 1e3:.0f}",
                f"{max(row.seconds) * 1e3:.0f}",
                f"{row.memory_bytes / 1e6:.0f}",
                f"{row.worst_gap_ratio:.4%}",
            ]
            for row in rows
        ],
    )
