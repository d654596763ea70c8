"""What docs/research/costs.md says comes out, between two marks.

    python -m infra.costs.page             # prints it
    python -m infra.costs.page --write     # puts it into the page: after new prices or measurements

Exit codes: 0 done, 2 the page, the prices or the measurements cannot be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from infra.closed_pipe import exit_code
from infra.costs.measured import Measured, MeasuredError, read_measured
from infra.costs.model import ControllerCost, break_even, compare, first_crossing
from infra.costs.price_list import PriceError, PriceList, read_prices
from infra.costs.report import duration
from infra.costs.workload import (
    DAY_SECONDS,
    Workload,
    busy_processors,
    cycles_per_day,
    function_seconds,
    machines,
)
from infra.stack_file.limits import ACCOUNT_FILTERS, MOST_CYCLES_PER_DAY

PAGE = Path(__file__).resolve().parents[2] / "docs" / "research" / "costs.md"
BEGIN = "<!-- made by: python -m infra.costs.page --write -->"
END = "<!-- end of what is made -->"
WIDTH = 110
MINUTE_CYCLES = 1440
MINUTE_USD = 5
_BUSY_READS = 100_000
# Processor seconds of the function's imports on Python 3.11, measured when bytecode was put in.
IMPORT_SECONDS = (0.16, 0.33)


class PageError(ValueError):
    """The page has no place for what is made; the message names it."""


class _Bills:
    """Sums for the workloads that the page speaks of, all without the free tier."""

    def __init__(self, measured: Measured, prices: PriceList) -> None:
        self.measured, self.prices = measured, prices

    def of(self, controller: str, workload: Workload) -> ControllerCost:
        (bill,) = compare(workload, self.measured, self.prices, controllers=(controller,))
        return bill

    def usd(self, controller: str, workload: Workload) -> float:
        """Return dollars a year, everything counted."""
        return self.of(controller, workload).usd(free_tier=False)

    def break_even(self, workload: Workload, against: str) -> str:
        cycles = break_even(
            workload, self.measured, self.prices, against=against, limit=MOST_CYCLES_PER_DAY
        )
        return f"from {cycles:,} a day on" if cycles else "never"

    def nodes(self, against: str) -> int | None:
        """Return with how many nodes of hourly cycles Lambda first costs as much."""
        most = ACCOUNT_FILTERS.most
        return break_even(
            Workload(), self.measured, self.prices, against=against, by="nodes", limit=most
        )


def made(measured: Measured, prices: PriceList) -> str:
    """The text between the marks."""
    bills = _Bills(measured, prices)
    points = (
        _node_and_year(bills),
        _busy_node(bills),
        _thousand(bills),
        _minute(bills),
        _crossings(bills),
        _without_bytecode(bills),
    )
    return "\n".join(
        (
            "Dollars a year, hourly cycles, 3 servers on each node, without the free tier, "
            "everything counted:",
            "",
            *_table(bills),
            "",
            *(_point(text) for text in points),
        )
    )


def _table(bills: _Bills) -> Iterator[str]:
    rows = (
        ("lambda", "Lambda"),
        ("fargate", "Fargate"),
        ("service", "always-on Fargate service, told over S3 and SQS"),
        ("instance", "always-on t4g.micro, told over S3 and SQS"),
        ("http", "always-on t4g.micro, asked over HTTP (`python -m solver_lambda serve`)"),
        ("embedded", 'in the sidecar (`controller.kind = "embedded"`)'),
    )
    yield "| | one node | 40 nodes | 1,000 nodes |"
    yield "|---|---|---|---|"
    for controller, name in rows:
        sums = [f"{bills.usd(controller, Workload(nodes=n)):,.2f}" for n in (1, 40, 1000)]
        yield f"| {name} | {' | '.join(sums)} |"


def _point(text: str) -> str:
    return textwrap.fill(
        f"* {text}",
        WIDTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _node_and_year(bills: _Bills) -> str:
    alone = bills.of("lambda", Workload())
    shared = bills.usd("lambda", Workload(nodes=1000)) / 1000
    warm, cold = function_seconds(Workload(), bills.measured)
    return (
        f"**A node and year of hourly cycles** on Lambda is ${alone.nodes_usd(False):.2f} alone, "
        f"without the ${alone.shared_usd(False):.2f} for the two alarms that all share (the goal "
        f"is below $0.25), and ${shared:.2f} with all that is shared among a thousand. A cold "
        f"run is billed {(warm + cold) / warm:.0f} times as long as a warm one."
    )


def _busy_node(bills: _Bills) -> str:
    cycles = cycles_per_day(_BUSY_READS)
    usd = bills.of("lambda", Workload(cycles_per_day=cycles)).nodes_usd(False)
    return (
        f"**A busy node** has more cycles: by default one ends after 500,000 samples, counted "
        f"as at a rate of 0.01. Of {_BUSY_READS:,} reads a second, that makes {cycles:.0f} a day "
        f"and ${usd:.2f} a year (`--reads-per-second {_BUSY_READS}`). Early cycles, when the load "
        "changes, are not in it."
    )


def _thousand(bills: _Bills) -> str:
    thousand = Workload(nodes=1000)
    bill = bills.of("lambda", thousand)
    usd = bill.usd(False)
    by_cell = {
        size: bills.usd("lambda", dataclasses.replace(thousand, nodes_per_cell=size))
        for size in range(1, 101)
    }
    least = min(by_cell, key=lambda size: by_cell[size])
    (filtering,) = (term.usd(False) for term in bill.terms if term.name == "SNS filtering")
    month = dataclasses.replace(thousand, retention_days=30, log_retention_days=30)
    saved = usd - bills.usd("lambda", month)
    return (
        f"**A thousand nodes** in cells of 40 are ${usd:.2f} a year (the goal is below $200). "
        "Larger cells pay more for filtering, each notice being looked at for each node of its "
        f"cell ({100 * filtering / usd:.0f} % of this bill); smaller ones for cold starts. The "
        f"least is ${by_cell[least]:.2f}, in cells of {least}; in cells of 20 it is "
        f"${by_cell[20]:.2f}. Documents and logs kept for 30 days instead of 180 save ${saved:.0f}."
    )


def _minute(bills: _Bills) -> str:
    minute = Workload(cycles_per_day=MINUTE_CYCLES)
    bill = bills.of("lambda", minute)
    (puts,) = (term.usd(False) for term in bill.terms if term.name == "S3 PUT")

    def below(nodes: int) -> float:
        return MINUTE_USD - bills.usd("http", dataclasses.replace(minute, nodes=nodes)) / nodes

    enough = first_crossing(below, 1_000_000)
    busy = busy_processors(dataclasses.replace(minute, nodes=1000), bills.measured)
    needed = machines("http", dataclasses.replace(minute, nodes=1000), bills.measured)
    return (
        f"**A cycle a minute** cannot be below ${MINUTE_USD} over S3: its two PUTs alone are "
        f"${puts:.2f}, everything but the alarms ${bill.nodes_usd(False):.2f}. Asked over HTTP, "
        f"nodes share a machine, which is less than ${MINUTE_USD} for each from "
        f"{enough} nodes on. A thousand nodes would keep {100 * busy:.0f} % of a processor "
        f"busy, and a t4g.micro may use 20 % for long: they pay for {needed} of them. "
        "In the sidecar it costs nothing."
    )


def _crossings(bills: _Bills) -> str:
    shortest = duration(DAY_SECONDS / MOST_CYCLES_PER_DAY)
    thousand = Workload(nodes=1000)
    return (
        "**From how many cycles on an always-on machine is cheaper than Lambda** depends on how "
        f"many nodes share it (the model goes to one cycle every {shortest}). Told over S3 and "
        f"SQS: for one node {bills.break_even(Workload(), 'instance')}, for a thousand "
        f"{bills.break_even(thousand, 'instance')}. Asked over HTTP: for one node "
        f"{bills.break_even(Workload(), 'http')}, for a thousand "
        f"{bills.break_even(thousand, 'http')}; with hourly cycles, where "
        f"{bills.nodes('http'):,} nodes share it."
    )


def _without_bytecode(bills: _Bills) -> str:
    with_it, without = IMPORT_SECONDS
    slower = dataclasses.replace(
        bills.measured, init_cpu_seconds=bills.measured.init_cpu_seconds + without - with_it
    )
    before = bills.of("lambda", Workload()).nodes_usd(False)
    after = _Bills(slower, bills.prices).of("lambda", Workload()).nodes_usd(False)
    return (
        "**Without bytecode** it costs more. The function's package has some where a Python of the "
        "function's version is at hand when it is put together (`uv python find 3.14`; `cdk` says "
        f"so if there is none). Without it the imports take {without} s of a processor instead of "
        f"{with_it} s (measured here, on 3.11), and the node that is alone costs ${after:.2f} "
        f"instead of ${before:.2f}."
    )


def with_made(page: str, text: str) -> str:
    """Return ``page`` with ``text`` between its marks. Raises PageError."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise PageError(f"must have the lines {BEGIN!r} and {END!r} once")
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise PageError(f"{END!r} must come after {BEGIN!r}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.costs.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="change the page")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        text = made(read_measured(), read_prices())
        if options.write:
            options.page.write_text(with_made(options.page.read_text(), text))
    except (PageError, PriceError, MeasuredError, OSError) as error:
        print(f"costs page: {options.page}: {error}", file=sys.stderr)
        return 2
    if not options.write:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
