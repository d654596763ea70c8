"""What does SPREDS cost a year, with which controller?

    python -m infra.costs [--cycles-per-day 24] [--servers 3] [--nodes 1] [--time-limit 500ms] …

Compares a Lambda function, a Fargate task, an always-on instance and the solver embedded in the
sidecar (no cloud at all), term by term, with and without AWS' free tier; reproduces the thesis'
bill; recommends the cheapest that meets the time limit (by default: before the next observation).

Exit codes: 0 done, 1 no controller meets the time limit, 2 bad arguments or a bad file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.costs import report
from infra.costs.measured import MEASURED_FILE, Measured, MeasuredError, read_measured
from infra.costs.model import ControllerCost, break_even, cheapest, compare
from infra.costs.prices import PRICES_FILE, PriceError, PriceList, read_prices
from infra.costs.terms import Term
from infra.costs.thesis import (
    ALWAYS_ON_USD,
    CYCLES_PER_DAY,
    findings,
    thesis_terms,
    thesis_usd,
)
from infra.costs.workload import (
    CONTROLLERS,
    DAY_SECONDS,
    DELIVERIES,
    FUNCTION_TIMEOUT_SECONDS,
    MOST_CYCLES_PER_DAY,
    MOST_RETENTION_DAYS,
    MOST_SERVERS,
    POLLINGS,
    Workload,
)

SHOWN_CYCLES_PER_DAY = (1, 24, 100, 288, 606, 1000, MOST_CYCLES_PER_DAY)
BREAK_EVEN_LIMIT = 1_000_000
# What AWS lets a function have.
FUNCTION_MEMORY_MB = (128, 10_240)
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class InputError(ValueError):
    """An argument breaks a rule; the message names it and the value."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """All that is told, as text or as JSON."""

    workload: Workload
    measured: Measured
    prices: PriceList
    bills: Sequence[ControllerCost]
    by_cycles: Mapping[int, Sequence[ControllerCost]]
    break_evens: Mapping[str, int | None]
    time_limit_seconds: float
    free_tier: bool
    chosen: ControllerCost | None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _parser().parse_args(arguments)
    try:
        prices = read_prices(options.prices)
        measured = read_measured(options.measured)
        workload = _workload(options, measured, prices)
        latencies = _latencies(options.latency)
        controllers = _controllers(options.controllers)
        limit = _time_limit(options.time_limit, workload)
        if options.figure:
            _draw(options.figure, workload, measured, prices)
    except (InputError, PriceError, MeasuredError, OSError) as error:
        print(f"costs: {error}", file=sys.stderr)
        return 2

    def bills_at(cycles_per_day: float) -> list[ControllerCost]:
        at = dataclasses.replace(workload, cycles_per_day=cycles_per_day)
        return compare(at, measured, prices, latencies, controllers)

    bills = bills_at(workload.cycles_per_day)
    answer = Answer(
        workload=workload,
        measured=measured,
        prices=prices,
        bills=bills,
        by_cycles={cycles: bills_at(cycles) for cycles in SHOWN_CYCLES_PER_DAY},
        break_evens={
            f"{'with' if free_tier else 'without'} the free tier": break_even(
                workload, measured, prices, free_tier=free_tier, limit=BREAK_EVEN_LIMIT
            )
            for free_tier in (False, True)
        },
        time_limit_seconds=limit,
        free_tier=options.free_tier,
        chosen=cheapest(bills, limit, options.free_tier),
    )
    print(
        json.dumps(_as_json(answer), indent=2, allow_nan=False) if options.json else _text(answer)
    )
    return 0 if answer.chosen else 1


def _parser() -> argparse.ArgumentParser:
    default = Workload()
    parser = argparse.ArgumentParser(
        prog="python -m infra.costs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--cycles-per-day",
        default=f"{default.cycles_per_day:g}",
        help=f"of each node, 1 to {MOST_CYCLES_PER_DAY} (default: %(default)s)",
    )
    add("--servers", default=str(default.servers), help="partitions of a node (%(default)s)")
    add("--nodes", default=str(default.nodes), help="that share the stack (%(default)s)")
    add("--delivery", choices=DELIVERIES, default=default.delivery, help="of plans (%(default)s)")
    add(
        "--polling",
        choices=POLLINGS,
        default=default.polling,
        help="of the node's queue: while it waits for a plan, or always (%(default)s)",
    )
    add(
        "--retention-days",
        default=f"{default.retention_days:g}",
        help="of documents and logs (%(default)s)",
    )
    add("--alarms", default=str(default.alarms), help="of the stack (%(default)s)")
    add("--memory", default=str(default.memory_mb), help="of the function, in MB (%(default)s)")
    add("--duration", help="billed for each run, such as 200ms, instead of what was measured")
    add("--observation-bytes", help="instead of what was measured")
    add("--plan-bytes", help="instead of what was measured")
    add("--measured", type=Path, default=MEASURED_FILE, help="file of measurements")
    add("--prices", type=Path, default=PRICES_FILE, help="file of prices")
    add("--instance", default=default.instance_type, help="always-on machine (%(default)s)")
    add("--controllers", default=",".join(CONTROLLERS), help="to compare (%(default)s)")
    add(
        "--latency",
        action="append",
        default=[],
        metavar="CONTROLLER=DURATION",
        help="known from observation to plan, such as lambda=400ms; may be given often",
    )
    add("--time-limit", help="from observation to plan, such as 500ms")
    add("--free-tier", action="store_true", help="recommend by the sum with the free tier")
    add("--figure", type=Path, help="draw cost against cycles a day to this file")
    add("--json", action="store_true", help="everything as JSON")
    return parser


def _workload(options: argparse.Namespace, measured: Measured, prices: PriceList) -> Workload:
    """Raises InputError."""
    retention = _number("--retention-days", options.retention_days, 1, MOST_RETENTION_DAYS)
    workload = Workload(
        cycles_per_day=_number("--cycles-per-day", options.cycles_per_day, 1, MOST_CYCLES_PER_DAY),
        servers=_whole("--servers", options.servers, 1, MOST_SERVERS),
        nodes=_whole("--nodes", options.nodes, 1, 1_000_000),
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
    """Seconds; infra has no other use for durations, and may not import the sidecar's reader."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", text)
    if not match or match[2] not in _UNITS or not float(match[1]):
        raise InputError(f"{name} must be a duration such as 500ms, not {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def _run_duration(text: str) -> float:
    seconds = _duration("--duration", text)
    if seconds > FUNCTION_TIMEOUT_SECONDS:
        raise InputError(
            f"--duration must be at most {FUNCTION_TIMEOUT_SECONDS}s, when the function is ended, "
            f"not {text!r}"
        )
    return seconds


def _latencies(given: Sequence[str]) -> dict[str, float]:
    latencies = {}
    for text in given:
        controller, _, duration = text.partition("=")
        _controllers(controller)
        latencies[controller] = _duration(f"--latency {controller}", duration)
    return latencies


def _controllers(text: str) -> list[str]:
    controllers = text.split(",")
    for controller in controllers:
        if controller not in CONTROLLERS:
            known = ", ".join(CONTROLLERS)
            raise InputError(f"a controller must be one of {known}, not {controller!r}")
    return report.order(controllers)


def _time_limit(text: str | None, workload: Workload) -> float:
    return _duration("--time-limit", text) if text else DAY_SECONDS / workload.cycles_per_day


def _draw(path: Path, workload: Workload, measured: Measured, prices: PriceList) -> None:
    from infra.costs.figure import draw

    try:
        draw(path, workload, measured, prices)
    except ValueError as error:
        raise InputError(f"--figure {path}: {error}") from error
    print(f"costs: wrote {path}", file=sys.stderr)


def _text(answer: Answer) -> str:
    bills, workload, measured = answer.bills, answer.workload, answer.measured
    made_up = next((bill for bill in bills if bill.terms), None)
    blocks = [
        report.heading(workload, measured, answer.prices),
        report.bills_table(bills, workload, measured),
        report.how_made_up(made_up, workload.nodes) if made_up else (),
        [report.NOT_INCLUDED],
        report.cycles_table(answer.by_cycles),
        report.break_even_lines(answer.break_evens, workload.instance_type, BREAK_EVEN_LIMIT),
        report.thesis_table(),
        [report.recommendation(answer.chosen, bills, answer.time_limit_seconds, answer.free_tier)],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _as_json(answer: Answer) -> dict[str, Any]:
    return {
        "workload": dataclasses.asdict(answer.workload),
        "prices": {"date": answer.prices.date, "region": answer.prices.region},
        "measured": dataclasses.asdict(answer.measured),
        "target": {
            "usd": report.TARGET_USD,
            "of": "nodes_usd of lambda, for one node and hourly cycles",
        },
        "controllers": {
            bill.controller: {
                **_sums(bill),
                "latency_seconds": (
                    None if math.isinf(bill.latency_seconds) else bill.latency_seconds
                ),
                "terms": [_term(term) for term in bill.terms],
            }
            for bill in answer.bills
        },
        "cycles_per_day": {
            str(cycles): {bill.controller: _sums(bill) for bill in bills}
            for cycles, bills in answer.by_cycles.items()
        },
        "break_even_cycles_per_day": answer.break_evens,
        "thesis": {
            "always_on_usd": ALWAYS_ON_USD,
            "terms": [_term(term) for term in thesis_terms(CYCLES_PER_DAY)],
            "usd": thesis_usd(CYCLES_PER_DAY, free_tier=False),
            "usd_with_free_tier": thesis_usd(CYCLES_PER_DAY, free_tier=True),
            "findings": [dataclasses.asdict(finding) for finding in findings()],
        },
        "time_limit_seconds": answer.time_limit_seconds,
        "recommended": answer.chosen.controller if answer.chosen else None,
    }


def _sums(bill: ControllerCost) -> dict[str, float]:
    return {
        "nodes_usd": bill.nodes_usd(False),
        "stack_usd": bill.shared_usd(False),
        "usd": bill.usd(False),
        "usd_with_free_tier": bill.usd(True),
    }


def _term(term: Term) -> dict[str, Any]:
    return {
        **dataclasses.asdict(term),
        "usd": term.usd(False),
        "usd_with_free_tier": term.usd(True),
    }


if __name__ == "__main__":
    sys.exit(main())
