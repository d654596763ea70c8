"""The bills as a report in Markdown, with the prices that they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.costs import report
from infra.costs.answer import Answer
from infra.costs.model import ControllerCost
from infra.costs.price_list import PriceList, plain


def as_markdown(answer: Answer) -> str:
    """Return Markdown for a page or a ticket: tables, and a source for each price."""
    workload, made_up = answer.workload, report.first_with_terms(answer.bills)
    blocks: list[Iterator[str] | Sequence[str]] = [
        ["# What SPREDS costs a year"],
        report.heading(workload, answer.measured, answer.prices),
        _bills(answer.bills),
        _terms(made_up) if made_up else (),
        [report.NOT_INCLUDED],
        ["## By cycles a day"],
        _by_cycles(answer),
        report.break_even_lines(answer.break_evens, answer.break_evens_in_nodes, workload),
        [
            report.recommendation(
                answer.chosen, answer.bills, answer.time_limit_seconds, answer.free_tier
            )
        ],
        ["## Prices"],
        _prices(answer.prices),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _table(header: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + " --- |" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _bills(bills: Sequence[ControllerCost]) -> Iterator[str]:
    sums = (
        ("all nodes", [bill.nodes_usd(False) for bill in bills]),
        ("what they share", [bill.shared_usd(False) for bill in bills]),
        ("together, without the free tier", [bill.usd(False) for bill in bills]),
        ("together, with the free tier", [bill.usd(True) for bill in bills]),
    )
    currency = bills[0].currency
    rows = [[name, *(report.money(one, currency) for one in amounts)] for name, amounts in sums]
    rows.append(["machines always on", *(str(bill.machines or "-") for bill in bills)])
    rows.append(["plan arrives after", *(report.duration(bill.latency_seconds) for bill in bills)])
    return _table([f"{currency} a year", *(bill.controller for bill in bills)], iter(rows))


def _terms(bill: ControllerCost) -> Iterator[str]:
    rows = (
        [
            term.name,
            report.quantity(term.quantity),
            term.unit,
            plain(term.usd_per_unit),
            report.money(term.usd(False), bill.currency),
            "yes" if term.shared else "",
        ]
        for term in bill.terms
    )
    header = [f"{bill.controller}, a year", "quantity", "unit", "price", bill.currency, "shared"]
    return _table(header, rows)


def _by_cycles(answer: Answer) -> Iterator[str]:
    rows = (
        [f"{cycles:,}", *(report.money(bill.usd(False), bill.currency) for bill in bills)]
        for cycles, bills in answer.by_cycles.items()
    )
    controllers = [bill.controller for bill in answer.bills]
    return _table(["a year, without the free tier", *controllers], rows)


def _prices(prices: PriceList) -> Iterator[str]:
    rows = (
        [
            key,
            f"{plain(price.usd)} {prices.currency} per {price.per:,.0f} {price.unit}",
            price.as_of or "undated",
            price.source,
        ]
        for key, price in prices.prices.items()
    )
    return _table([f"{prices.region}, {prices.date}", "price", "as of", "source"], rows)
