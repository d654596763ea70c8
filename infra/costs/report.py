"""The bills as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from infra.costs.measured import Measured
from infra.costs.model import BreakEvens, ControllerCost
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
    BASELINE_PROCESSORS,
    CONTROLLERS,
    DAY_SECONDS,
    KEEP_WARM_SECONDS,
    OTHER_PROCESSORS,
    S3_WAIT_SECONDS,
    TASK_START_SECONDS,
    TASK_VCPU,
    TRANSPORT_SECONDS,
    Workload,
    busy_processors,
    function_seconds,
    yearly_cold_starts,
)
from infra.stack_file.limits import ACCOUNT_FILTERS, MOST_CYCLES_PER_DAY

# A year of hourly cycles for one node, without the free tier and the stack's shared terms.
TARGET_USD = 0.25
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


def money(amount: float, currency: str = "USD") -> str:
    """``$0.2282``, ``$84.45``, ``CNY 1.20``: cents, and more digits only below a dollar."""
    sign = "$" if currency == "USD" else f"{currency} "
    return f"{sign}{amount:,.2f}" if amount >= 1 or amount == 0 else f"{sign}{amount:.4f}"


def duration(seconds: float) -> str:
    """Format a duration: ``45 ms``, ``3.1 s``, ``60 min``."""
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def heading(workload: Workload, measured: Measured, prices: PriceList) -> Iterator[str]:
    """Yield what was asked, and what the answer rests on."""
    warm, start = function_seconds(workload, measured)
    yield (
        f"A year of SPREDS: {workload.cycles_per_day:g} cycles a day, "
        f"{_count(workload.servers, 'server')} on {_nodes(workload.nodes)} "
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
    """Lay out a column for each controller, a row for each term, without the free tier."""
    names = list(dict.fromkeys(t.name for bill in bills for t in bill.terms if not t.shared))
    shared = list(dict.fromkeys(t.name for bill in bills for t in bill.terms if t.shared))
    rows = [(f"{bills[0].currency} a year", [bill.controller for bill in bills])]
    rows += [(name, [_term_usd(bill, name) for bill in bills]) for name in names]
    rows.append(("= all nodes", [_money(bill, bill.nodes_usd(False)) for bill in bills]))
    rows += [(f"stack: {name}", [_term_usd(bill, name) for bill in bills]) for name in shared]
    rows.append(("= without free tier", [_money(bill, bill.usd(False)) for bill in bills]))
    rows.append(("= with free tier", [_money(bill, bill.usd(True)) for bill in bills]))
    rows.append(("machines always on", [str(bill.machines or "-") for bill in bills]))
    rows.append(("plan arrives after", [duration(bill.latency_seconds) for bill in bills]))
    yield from _aligned(rows)
    yield from _machines(bills, workload, measured)
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
            f"x {_price(bill, term.usd_per_unit)} = {_money(bill, term.usd(False))}{free}"
        )
    each, with_stack = bill.nodes_usd(False) / nodes, bill.usd(False) / nodes
    verdict = "below" if each < TARGET_USD else "NOT below"
    target = f"{verdict} the target of ${TARGET_USD:.2f} (which is for hourly cycles,"
    if bill.currency != "USD":
        target = "of hourly cycles or what was asked (counted"
    yield f"  For a node: {_money(bill, each)}, {target} without the free tier,"
    yield (
        "  and without what the stack's nodes share: the alarms of the dead-letter queues). With "
        f"that: {_money(bill, with_stack)};"
    )
    free = _money(bill, bill.usd(True) / nodes)
    yield f"  with the free tier, which covers ten alarms: {free}."


def cycles_table(rows: Mapping[int, Sequence[ControllerCost]]) -> Iterator[str]:
    """Sums over cycles a day, and the thesis' bill beside ours: the numbers of the figure."""
    controllers = [bill.controller for bill in next(iter(rows.values()))]
    lines: list[tuple[str, list[str]]] = [("cycles a day", [*controllers, "thesis' bill"])]
    for free_tier in (False, True):
        lines.append((f"{'with' if free_tier else 'without'} the free tier:", []))
        for cycles, bills in rows.items():
            sums = [_money(bill, bill.usd(free_tier)) for bill in bills]
            sums.append(money(thesis_usd(cycles, free_tier)))
            lines.append((f"{cycles:,}".rjust(8), sums))
    yield from _aligned(lines)


def thesis_table() -> Iterator[str]:
    """Table 8.7 from its inputs, and the thesis' figures beside ours."""
    yield (
        f"The thesis' Table 8.7 again: {CYCLES_PER_DAY} cycles a day of {DURATION_SECONDS} s with "
        f"{MEMORY_GB} GB, {STORED_GB} GB kept"
    )
    rows = [("USD a year", ["quantity", "without free", "with free"])]
    rows += [
        (term.name, [quantity(term.quantity), money(term.usd(False)), money(term.usd(True))])
        for term in thesis_terms(CYCLES_PER_DAY)
    ]
    sums = [money(thesis_usd(CYCLES_PER_DAY, free_tier)) for free_tier in (False, True)]
    yield from _aligned([*rows, ("=", ["", *sums])])
    yield ""
    yield f"{'Figure':58} {'thesis':>10} {'from its inputs':>16}"
    for finding in findings():
        yield f"{finding.figure:58} {finding.thesis:>10} {finding.recomputed:>16}"
        yield f"    {finding.remark}"


def recommendation(
    chosen: ControllerCost | None, bills: Sequence[ControllerCost], limit: float, free_tier: bool
) -> str:
    """Return the recommendation as one sentence."""
    tier = "with" if free_tier else "without"
    if chosen is None:
        fastest = min(bills, key=lambda bill: bill.latency_seconds)
        return (
            f"No controller's plan arrives within {duration(limit)}; the fastest is "
            f"{fastest.controller} with {duration(fastest.latency_seconds)}."
        )
    return (
        f"Recommended: {chosen.controller}, the cheapest whose plan arrives within "
        f"{duration(limit)}: {_money(chosen, chosen.usd(free_tier))} a year {tier} the free tier, "
        f"after {duration(chosen.latency_seconds)}."
    )


def break_even_lines(
    by_cycles: BreakEvens, by_nodes: BreakEvens, workload: Workload
) -> Iterator[str]:
    """Tell at how many cycles a day of each node, and at how many nodes, the function first costs
    as much as the machine. This is not "from there on": both pay the same to S3 and SNS. So the
    lines lie close, and cross again where a busier sidecar polls less."""
    shortest = duration(DAY_SECONDS / MOST_CYCLES_PER_DAY)
    names = {
        "service": "an always-on Fargate service",
        "instance": f"an always-on {workload.instance_type}, told over S3 and SQS",
        "http": f"an always-on {workload.instance_type}, asked over HTTP",
    }
    account = f"the {ACCOUNT_FILTERS.most:,} nodes that an account takes"
    nodes, cycles = _nodes(workload.nodes), f"{workload.cycles_per_day:,.6g} cycles a day"
    for against, name in names.items():
        first = _first(by_cycles[against], "cycles a day", f"one cycle every {shortest}")
        yield f"Lambda costs as much as {name},"
        yield f"  with {nodes}: {first};"
        yield f"  at {cycles}: {_first(by_nodes[against], 'nodes', account)}."


def _first(by_tier: Mapping[str, int | None], unit: str, most: str) -> str:
    if not any(by_tier.values()):
        return f"never, not even at {most}"
    return "; ".join(
        f"{tier} first at {count:,} {unit}" if count else f"{tier} never, not even at {most}"
        for tier, count in by_tier.items()
    )


def first_with_terms(bills: Sequence[ControllerCost]) -> ControllerCost | None:
    """The one whose sum is shown in detail."""
    return next((bill for bill in bills if bill.terms), None)


def order(controllers: Sequence[str]) -> list[str]:
    """Sort controllers into the order of the tables."""
    return [controller for controller in CONTROLLERS if controller in controllers]


def _term_usd(bill: ControllerCost, name: str) -> str:
    found = [term.usd(False) for term in bill.terms if term.name == name]
    return _money(bill, sum(found)) if found else "-"


def _money(bill: ControllerCost, amount: float) -> str:
    return money(amount, bill.currency)


def _price(bill: ControllerCost, amount: float) -> str:
    return f"{'$' if bill.currency == 'USD' else f'{bill.currency} '}{plain(amount)}"


def _machines(
    bills: Sequence[ControllerCost], workload: Workload, measured: Measured
) -> Iterator[str]:
    """Say why so many machines are needed."""
    if any(bill.machines > 1 for bill in bills):
        busy = busy_processors(workload, measured)
        each = BASELINE_PROCESSORS.get(workload.instance_type, OTHER_PROCESSORS)
        yield (
            f"Planning keeps {busy:.3g} processors busy. A {workload.instance_type} may use "
            f"{each:g} of one for long, a task of the service has {TASK_VCPU:g}."
        )


def _aligned(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Align names to the left, cells to the right of columns that are as wide as they must be."""
    columns = max(len(cells) for _, cells in rows)
    first = max(26, *(len(name) for name, _ in rows))
    widths = [
        max(11, *(2 + len(cells[column]) for _, cells in rows if column < len(cells)))
        for column in range(columns)
    ]
    for name, cells in rows:
        line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))
        yield f"{name:{first}}{line}".rstrip()


def quantity(amount: float) -> str:
    """Format a quantity: ``8,760``, ``0.01234``: whole from a thousand on."""
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:,.4g}"


def _nodes(number: int) -> str:
    return "one node" if number == 1 else f"each of {number:,} nodes"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
