"""What does SPREDS cost a year, with which controller?

    python -m infra.costs [--cycles-per-day 24] [--servers 3] [--nodes 1] [--time-limit 500ms] …

It compares these term by term, with and without AWS' free tier: a Lambda function, a Fargate task,
a Fargate service that is always on, an always-on instance, a solver on such an instance that is
asked over HTTP, and the one embedded in the sidecar (no cloud at all). Each has as many machines as
the planning needs. It also reproduces the thesis' bill, and recommends the cheapest that meets the
time limit (by default: before the next observation). `python -m infra.costs.page --write` puts the
answers that docs/research/costs.md gives into it.

Exit codes: 0 done, 1 no controller meets the time limit, 2 bad arguments or a bad file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.closed_pipe import exit_code
from infra.costs.answer import Answer, as_csv, as_json, as_text
from infra.costs.arguments import (
    InputError,
    make_parser,
    parsed,
    read_controllers,
    read_latencies,
    read_time_limit,
    read_workload,
)
from infra.costs.markdown import as_markdown
from infra.costs.measured import Measured, MeasuredError, read_measured
from infra.costs.model import ControllerCost, break_evens, cheapest, compare
from infra.costs.price_list import PriceError, PriceList, read_prices
from infra.costs.workload import Workload
from infra.stack_file.limits import ACCOUNT_FILTERS, MOST_CYCLES_PER_DAY
from solver_lambda.documents.reader import DocumentError

SHOWN_CYCLES_PER_DAY = (1, 24, 100, 288, 606, 1000, MOST_CYCLES_PER_DAY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        options = parsed(make_parser(__doc__ or ""), arguments)
        prices = read_prices(options.prices)
        measured = read_measured(options.measured)
        workload = read_workload(options, measured, prices)
        latencies = read_latencies(options.latency)
        controllers = read_controllers(options.controllers)
        limit = read_time_limit(options.time_limit, workload)
        if options.figure:
            _draw(options.figure, workload, measured, prices)
    except (DocumentError, InputError, PriceError, MeasuredError, OSError) as error:
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
        break_evens=break_evens(workload, measured, prices, "cycles_per_day", MOST_CYCLES_PER_DAY),
        break_evens_in_nodes=break_evens(workload, measured, prices, "nodes", ACCOUNT_FILTERS.most),
        time_limit_seconds=limit,
        free_tier=options.free_tier,
        chosen=cheapest(bills, limit, options.free_tier),
    )
    print(_in_form(answer, options))
    return 0 if answer.chosen else 1


def _in_form(answer: Answer, options: argparse.Namespace) -> str:
    if options.json:
        return json.dumps(as_json(answer), indent=2, allow_nan=False)
    if options.csv:
        return as_csv(answer)
    return as_markdown(answer) if options.markdown else as_text(answer)


def _draw(path: Path, workload: Workload, measured: Measured, prices: PriceList) -> None:
    from infra.costs.figure import draw

    try:
        draw(path, workload, measured, prices)
    except ValueError as error:
        raise InputError(f"--figure {path}: {error}") from error
    print(f"costs: wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(exit_code(main))
