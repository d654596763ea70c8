"""The arguments of the cost model's command line, checked; a mistake is told in one sentence."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from infra.costs import report
from infra.costs.measured import MEASURED_FILE, Measured
from infra.costs.price_list import PRICES_FILE, PriceList
from infra.costs.workload import (
    CONTROLLERS,
    CYCLE_SAMPLES,
    DAY_SECONDS,
    DELIVERIES,
    FUNCTION_TIMEOUT_SECONDS,
    PLACES,
    POLLINGS,
    SAMPLING_RATE,
    TOPICS,
    Workload,
    cycles_per_day,
)
from infra.stack_file.configuration import read_configuration
from infra.stack_file.limits import MOST_CYCLES_PER_DAY, MOST_RETENTION_DAYS, MOST_SERVERS
from solver_lambda.documents.units import parse_duration

# With more, a node has more cycles a day than the model goes to.
MOST_READS_PER_SECOND = MOST_CYCLES_PER_DAY * CYCLE_SAMPLES / SAMPLING_RATE / DAY_SECONDS
# What AWS lets a function have.
FUNCTION_MEMORY_MB = (128, 10_240)


class InputError(ValueError):
    """An argument breaks a rule; the message names it and the value."""


def make_parser(description: str) -> argparse.ArgumentParser:
    """Takes all arguments as text."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.costs",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Workload()

    def add(name: str, value: object, meaning: str, choices: Sequence[str] | None = None) -> None:
        parser.add_argument(
            name, default=f"{value}", choices=choices, help=f"{meaning} (default: %(default)s)"
        )

    most = f"from 1 to {MOST_CYCLES_PER_DAY}"
    cycles, one = f"{default.cycles_per_day:g}", parser.add_mutually_exclusive_group()
    meaning = f"cycles of each node a day, {most} (default: %(default)s)"
    one.add_argument("--cycles-per-day", default=cycles, help=meaning)
    one.add_argument(
        "--reads-per-second",
        help="of each node: cycles a day follow from it, at a node's default settings, without "
        "early cycles",
    )
    add("--servers", default.servers, "Redis servers on each node")
    add("--nodes", default.nodes, "nodes of the installation")
    add("--nodes-per-cell", default.nodes_per_cell, "nodes that share a topic and a function")
    add("--place", default.place, "whether the nodes are in the stack's region", PLACES)
    topics = "whether S3 calls the function (one), or by a topic for observations (two)"
    add("--topics", default.topics, topics, TOPICS)
    add("--delivery", default.delivery, "how plans come to a node", DELIVERIES)
    polling = "when a node polls its queue: while it waits for a plan, or always"
    add("--polling", default.polling, polling, POLLINGS)
    kept = "days that documents and logs are kept"
    add("--retention-days", f"{default.retention_days:g}", kept)
    add("--alarms", default.alarms, "alarms in the stack")
    add("--memory", default.memory_mb, "memory of the function in MB")
    add("--instance", default.instance_type, "type of the always-on machine")
    add("--controllers", ",".join(CONTROLLERS), "controllers to compare")
    parser.add_argument(
        "--stack",
        type=Path,
        metavar="FILE",
        help="take nodes, servers, cycles a day, cells, topics, alarms and retention from a "
        "stack's TOML file, such as infra/stack.toml; what else is given here counts more",
    )
    _add_measurements(parser)
    _add_answer(parser)
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments; ``--stack`` says what is not given. Raises DocumentError, OSError."""
    options = parser.parse_args(arguments)
    if options.stack:
        stack = read_configuration(options.stack)
        deliveries = {node.delivery for node in stack.nodes}
        parser.set_defaults(
            nodes=f"{len(stack.nodes)}",
            servers=f"{stack.servers_per_node}",
            cycles_per_day=f"{stack.cycles_per_day}",
            nodes_per_cell=f"{stack.nodes_per_cell}",
            topics=stack.topics,
            # Where both occur, the queues, which cost more.
            delivery="http" if deliveries == {"http"} else "sqs",
            retention_days=f"{stack.retention_days}",
            alarms=f"{Workload.alarms + stack.alarms_of_cells}",
        )
        options = parser.parse_args(arguments)
    return options


def _add_measurements(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--duration", help="the time billed for each run, such as 200ms (default: as measured)")
    add("--observation-bytes", help="size of an observation (default: as measured)")
    add("--plan-bytes", help="size of a plan (default: as measured)")
    add("--measured", type=Path, default=MEASURED_FILE, help="the file of measurements")
    add("--prices", type=Path, default=PRICES_FILE, help="the file of prices")
    add(
        "--latency",
        action="append",
        default=[],
        metavar="CONTROLLER=DURATION",
        help="a known time from observation to plan, such as lambda=400ms; can be repeated",
    )


def _add_answer(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--time-limit",
        help="the longest time from observation to plan, such as 500ms (default: one cycle)",
    )
    add("--free-tier", action="store_true", help="recommend by the cost with the free tier")
    add("--figure", type=Path, help="draw cost against cycles a day into this file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything as JSON")
    form.add_argument("--csv", action="store_true", help="print everything as CSV")
    form.add_argument("--markdown", action="store_true", help="print a report in Markdown")


def read_workload(options: argparse.Namespace, measured: Measured, prices: PriceList) -> Workload:
    """Read the workload from the options. Raises InputError."""
    retention = _number("--retention-days", options.retention_days, 1, MOST_RETENTION_DAYS)
    cycles = _number("--cycles-per-day", options.cycles_per_day, 1, MOST_CYCLES_PER_DAY)
    if options.reads_per_second is not None:
        reads = _number("--reads-per-second", options.reads_per_second, 0, MOST_READS_PER_SECOND)
        cycles = cycles_per_day(reads)
    workload = Workload(
        cycles_per_day=cycles,
        servers=_whole("--servers", options.servers, 1, MOST_SERVERS),
        nodes=_whole("--nodes", options.nodes, 1, 1_000_000),
        nodes_per_cell=_whole("--nodes-per-cell", options.nodes_per_cell, 1, 200),
        place=options.place,
        topics=options.topics,
        delivery=options.delivery,
        polling=options.polling,
        retention_days=retention,
        log_retention_days=retention,
        alarms=_whole("--alarms", options.alarms, 0, 10_000),
        memory_mb=_whole("--memory", options.memory, *FUNCTION_MEMORY_MB),
        duration_seconds=_run_duration(options.duration) if options.duration else None,
        observation_bytes=_bytes("--observation-bytes", options.observation_bytes),
        plan_bytes=_bytes("--plan-bytes", options.plan_bytes),
        instance_type=options.instance,
    )
    if workload.instance_type not in prices.instance_types():
        known = ", ".join(prices.instance_types())
        raise InputError(f"--instance must be one of {known}, not {workload.instance_type!r}")
    if workload.memory_mb * (1 << 20) < measured.peak_memory_bytes:
        raise InputError(
            f"--memory {workload.memory_mb} is less than the {measured.peak_memory_bytes >> 20} MB "
            f"that {options.measured} says a run takes"
        )
    return workload


def _number(name: str, text: str, low: float, high: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise InputError(f"{name} must be a number from {low:g} to {high:,g}, not {text!r}")
    return number


def _whole(name: str, text: str, low: int, high: int) -> int:
    number = _number(name, text, low, high)
    if number != int(number):
        raise InputError(f"{name} must be a whole number, not {text!r}")
    return int(number)


def _bytes(name: str, text: str | None) -> int | None:
    return None if text is None else _whole(name, text, 1, 16 << 20)


def _duration(name: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError(f"{name} {error}") from error
    if not seconds:
        raise InputError(f"{name} must be longer than 0, not {text!r}")
    return seconds


def _run_duration(text: str) -> float:
    seconds = _duration("--duration", text)
    if seconds > FUNCTION_TIMEOUT_SECONDS:
        raise InputError(
            f"--duration must be at most {FUNCTION_TIMEOUT_SECONDS}s, when the function is ended, "
            f"not {text!r}"
        )
    return seconds


def read_latencies(given: Sequence[str]) -> dict[str, float]:
    """Read the latency of each controller, in seconds. Raises InputError."""
    latencies = {}
    for text in given:
        controller, _, duration = text.partition("=")
        read_controllers(controller)
        latencies[controller] = _duration(f"--latency {controller}", duration)
    return latencies


def read_controllers(text: str) -> list[str]:
    """Read names of controllers into the report's order. Raises InputError."""
    controllers = text.split(",")
    for controller in controllers:
        if controller not in CONTROLLERS:
            known = ", ".join(CONTROLLERS)
            raise InputError(f"a controller must be one of {known}, not {controller!r}")
    return report.order(controllers)


def read_time_limit(text: str | None, workload: Workload) -> float:
    """Read seconds; by default, those to the next observation. Raises InputError."""
    return _duration("--time-limit", text) if text else DAY_SECONDS / workload.cycles_per_day
