"""The bills as tables for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from infra.costs.measured import Measured
from infra.costs.model import ControllerCost
from infra.costs.price_list import PriceList, plain
from infra.costs.thesis import (
    CYCLES_PER_DAY,
    DURATION_SECONDS,
    MEMORY_GB,
    STORED_GB,
    findings,
    thesis_terms,
    thesis_usd,
)
from infra.costs.workload import (
    CONTROLLERS,
    DAY_SECONDS,
    KEEP_WARM_SECONDS,
    MOST_CYCLES_PER_DAY,
    S3_WAIT_SECONDS,
    TASK_START_SECONDS,
    TRANSPORT_SECONDS,
    Workload,
    function_seconds,
    yearly_cold_starts,
)

TARGET_USD = 0.25
"""A year of hourly cycles for one node, without the free tier and the stack's shared terms."""
NOT_INCLUDED = (
    "Free, and so not listed: SNS' deliveries to SQS, traffic between services and nodes of one\n"
    "region, S3's DELETEs and expiries. Not included: what a node pays to reach AWS (NAT gateway,\n"
    "interface endpoints, its public address), changes of settings, the one receive and list of a\n"
    "sidecar's start, mails from the alarms' topic, CloudTrail, and keys of your own in KMS ($1 a\n"
    "month each), of which the stack has none. The free tier is the account's: what else runs in\n"
    "it takes from it; offers of an account's first year are not counted."
)


_DELIVERY = {
    ("sqs", "waiting"): "SQS, polled while a node waits for one",
    ("sqs", "always"): "SQS, polled all the time",
    ("http", "waiting"): "HTTP",
    ("http", "always"): "HTTP",
}


def money(usd: float) -> str:
    """``$0.2282``, ``$84.45``: cents, and more digits only below a dollar."""
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    """``45 ms``, ``3.1 s``, ``60 min``."""
    if math.isinf(seconds):
        return "never"
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def heading(workload: Workload, measured: Measured, prices: PriceList) -> Iterator[str]:
    """What was asked, and what the answer rests on."""
    warm, start = function_seconds(workload, measured)
    yield (
        f"A year of SPREDS: {workload.cycles_per_day:g} cycles a day, "
        f"{_count(workload.servers, 'server')} on each of {_count(workload.nodes, 'node')} "
        f"({workload.nodes_per_cell} in a cell at most),"
    )
    yield f"  plans by {_DELIVERY[workload.delivery, workload.polling]}."
    undated = sum(price.as_of is None for price in prices.prices.values())
    elsewhere = sum(price.region != prices.region for price in prices.prices.values())
    yield (
        f"Prices of {prices.date}, {prices.region}; of {len(prices.prices)}, {undated} without a "
        f"dated source, {elsewhere} read for"
    )
    yield "  another region or for none that is named (python -m infra.costs.prices show)."
    if workload.duration_seconds is not None:
        yield f"Function: {duration(warm)} billed for each run, as given, {workload.memory_mb} MB."
        return
    yield (
        f"Function, measured {measured.date}: at {workload.memory_mb} MB a warm run is billed "
        f"{duration(warm)} ({S3_WAIT_SECONDS * 1e3:.0f} ms of them"
    )
    yield f"  waiting for S3, assumed), a cold start {duration(start)} more"
    cold = yearly_cold_starts(workload) / workload.yearly_runs
    yield (
        f"  (infra/costs/measured.json says how). Counted cold: {100 * cold:.3g} % of the runs, "
        f"with none in the {KEEP_WARM_SECONDS / 60:g}"
    )
    yield "  minutes before (assumed)."


def bills_table(
    bills: Sequence[ControllerCost], workload: Workload, measured: Measured
) -> Iterator[str]:
    """One column for each controller, one row for each term, without the free tier."""
    names = list(dict.fromkeys(t.name for bill in bills for t in bill.terms if not t.shared))
    shared = list(dict.fromkeys(t.name for bill in bills for t in bill.terms if t.shared))
    yield _row("USD a year", [bill.controller for bill in bills])
    for name in names:
        yield _row(name, [_term_usd(bill, name) for bill in bills])
    yield _row("= all nodes", [money(bill.nodes_usd(False)) for bill in bills])
    for name in shared:
        yield _row(f"stack: {name}", [_term_usd(bill, name) for bill in bills])
    yield _row("= without free tier", [money(bill.usd(False)) for bill in bills])
    yield _row("= with free tier", [money(bill.usd(True)) for bill in bills])
    yield _row("plan arrives after", [duration(bill.latency_seconds) for bill in bills])
    yield (
        f"Latencies: through S3 and SNS {duration(TRANSPORT_SECONDS)} (from the thesis), a task's "
        f"start {duration(TASK_START_SECONDS)} (assumed); --latency replaces one."
    )
    if any(bill.controller == "embedded" for bill in bills):
        busy_seconds = workload.yearly_runs * measured.run_cpu_seconds(workload.servers)
        yield f"Embedded takes {busy_seconds:,.0f} s of the nodes' own processors a year instead."


def how_made_up(bill: ControllerCost, nodes: int) -> Iterator[str]:
    """Quantity times price of each term, and the sum against the target."""
    yield f"How {bill.controller}'s sum is made up (a year, without the free tier):"
    for term in bill.terms:
        free = f"; {term.free_quantity:,.0f} are free" if term.free_quantity else ""
        yield (
            f"  {term.name:20} {quantity(term.quantity):>14} {term.unit} "
            f"x ${plain(term.usd_per_unit)} = {money(term.usd(False))}{free}"
        )
    each, with_stack = bill.nodes_usd(False) / nodes, bill.usd(False) / nodes
    verdict = "below" if each < TARGET_USD else "NOT below"
    yield (
        f"  For a node: {money(each)}, {verdict} the target of ${TARGET_USD:.2f} (which is for "
        "hourly cycles, without the free tier,"
    )
    yield (
        "  and without what the stack's nodes share: the alarms of the dead-letter queues). With "
        f"that: {money(with_stack)};"
    )
    yield f"  with the free tier, which covers ten alarms: {money(bill.usd(True) / nodes)}."


def cycles_table(rows: Mapping[int, Sequence[ControllerCost]]) -> Iterator[str]:
    """Sums over cycles a day, and the thesis' bill beside ours: the numbers of the figure."""
    controllers = [bill.controller for bill in next(iter(rows.values()))]
    yield _row("cycles a day", [*controllers, "thesis' bill"])
    for free_tier in (False, True):
        yield f"{'with' if free_tier else 'without'} the free tier:"
        for cycles, bills in rows.items():
            sums = [bill.usd(free_tier) for bill in bills] + [thesis_usd(cycles, free_tier)]
            yield _row(f"{cycles:,}".rjust(8), [money(usd) for usd in sums])


def thesis_table() -> Iterator[str]:
    """Table 8.7 from its inputs, and the thesis' figures beside ours."""
    yield (
        f"The thesis' Table 8.7 again: {CYCLES_PER_DAY} cycles a day of {DURATION_SECONDS} s with "
        f"{MEMORY_GB} GB, {STORED_GB} GB kept"
    )
    yield _row("USD a year", ["quantity", "without free", "with free"])
    for term in thesis_terms(CYCLES_PER_DAY):
        yield _row(
            term.name,
            [quantity(term.quantity), money(term.usd(False)), money(term.usd(True))],
        )
    sums = [money(thesis_usd(CYCLES_PER_DAY, free_tier)) for free_tier in (False, True)]
    yield _row("=", ["", *sums])
    yield ""
    yield f"{'Figure':58} {'thesis':>10} {'from its inputs':>16}"
    for finding in findings():
        yield f"{finding.figure:58} {finding.thesis:>10} {finding.recomputed:>16}"
        yield f"    {finding.remark}"


def recommendation(
    chosen: ControllerCost | None, bills: Sequence[ControllerCost], limit: float, free_tier: bool
) -> str:
    """One sentence."""
    tier = "with" if free_tier else "without"
    if chosen is None:
        fastest = min(bills, key=lambda bill: bill.latency_seconds)
        return (
            f"No controller's plan arrives within {duration(limit)}; the fastest is "
            f"{fastest.controller} with {duration(fastest.latency_seconds)}."
        )
    return (
        f"Recommended: {chosen.controller}, the cheapest whose plan arrives within "
        f"{duration(limit)}: {money(chosen.usd(free_tier))} a year {tier} the free tier, after "
        f"{duration(chosen.latency_seconds)}."
    )


def break_even_lines(break_evens: Mapping[str, int | None], instance_type: str) -> Iterator[str]:
    """At how many cycles a day of each node the function first costs as much as the machine. Not
    "from there on": both pay the same to S3 and SNS, so that the lines lie close, and cross again
    where a busier sidecar polls less."""
    shortest = duration(DAY_SECONDS / MOST_CYCLES_PER_DAY)
    for tier, cycles in break_evens.items():
        at = (
            f"first at {cycles:,} cycles a day"
            if cycles
            else f"never, not even at one every {shortest}"
        )
        yield f"Lambda costs as much as an always-on {instance_type}, {tier}: {at}."


def first_with_terms(bills: Sequence[ControllerCost]) -> ControllerCost | None:
    """The one whose sum is shown in detail."""
    return next((bill for bill in bills if bill.terms), None)


def order(controllers: Sequence[str]) -> list[str]:
    """As the tables show them."""
    return [controller for controller in CONTROLLERS if controller in controllers]


def _term_usd(bill: ControllerCost, name: str) -> str:
    found = [term.usd(False) for term in bill.terms if term.name == name]
    return money(sum(found)) if found else "-"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:26}" + "".join(f"{cell:>13}" for cell in cells)


def quantity(amount: float) -> str:
    """``8,760``, ``0.01234``: whole from a thousand on."""
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:,.4g}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
