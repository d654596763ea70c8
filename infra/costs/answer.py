"""Everything that the cost model's command prints, as text and as JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

from infra.costs import report
from infra.costs.measured import Measured
from infra.costs.model import BreakEvens, ControllerCost
from infra.costs.price_list import PriceList
from infra.costs.terms import Term
from infra.costs.thesis import (
    ALWAYS_ON_USD,
    CYCLES_PER_DAY,
    findings,
    thesis_terms,
    thesis_usd,
)
from infra.costs.workload import Workload


@dataclasses.dataclass(frozen=True)
class Answer:
    """What was asked, and what came out."""

    workload: Workload
    measured: Measured
    prices: PriceList
    bills: Sequence[ControllerCost]
    by_cycles: Mapping[int, Sequence[ControllerCost]]
    break_evens: BreakEvens
    break_evens_in_nodes: BreakEvens
    time_limit_seconds: float
    free_tier: bool
    chosen: ControllerCost | None


def as_text(answer: Answer) -> str:
    """Return the answer as text for people."""
    bills, workload, measured = answer.bills, answer.workload, answer.measured
    made_up = report.first_with_terms(bills)
    blocks = [
        report.heading(workload, measured, answer.prices),
        report.bills_table(bills, workload, measured),
        report.how_made_up(made_up, workload.nodes) if made_up else (),
        [report.NOT_INCLUDED],
        report.cycles_table(answer.by_cycles),
        report.break_even_lines(answer.break_evens, answer.break_evens_in_nodes, workload),
        report.thesis_table(),
        [report.recommendation(answer.chosen, bills, answer.time_limit_seconds, answer.free_tier)],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the answer as a JSON object for programs."""
    return {
        "workload": dataclasses.asdict(answer.workload),
        "prices": {
            "date": answer.prices.date,
            "region": answer.prices.region,
            "currency": answer.prices.currency,
        },
        "measured": dataclasses.asdict(answer.measured),
        "target": {
            "usd": report.TARGET_USD,
            "of": "nodes_usd of lambda, for one node and hourly cycles",
        },
        "controllers": {
            bill.controller: {
                **_sums(bill),
                "machines": bill.machines,
                "latency_seconds": bill.latency_seconds,
                "terms": [_term(term) for term in bill.terms],
            }
            for bill in answer.bills
        },
        "cycles_per_day": {
            str(cycles): {bill.controller: _sums(bill) for bill in bills}
            for cycles, bills in answer.by_cycles.items()
        },
        "break_even_cycles_per_day": answer.break_evens,
        "break_even_nodes": answer.break_evens_in_nodes,
        "thesis": {
            "always_on_usd": ALWAYS_ON_USD,
            "terms": [_term(term) for term in thesis_terms(CYCLES_PER_DAY)],
            "usd": thesis_usd(CYCLES_PER_DAY, free_tier=False),
            "usd_with_free_tier": thesis_usd(CYCLES_PER_DAY, free_tier=True),
            "cycles_per_day": {
                str(cycles): {
                    "usd": thesis_usd(cycles, free_tier=False),
                    "usd_with_free_tier": thesis_usd(cycles, free_tier=True),
                }
                for cycles in answer.by_cycles
            },
            "findings": [dataclasses.asdict(finding) for finding in findings()],
        },
        "time_limit_seconds": answer.time_limit_seconds,
        "recommended": answer.chosen.controller if answer.chosen else None,
    }


def as_csv(answer: Answer) -> str:
    """Return CSV for a spreadsheet: a line a term, sum and break-even; money is of a year."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("kind", "controller", "name", "quantity", "unit", "price", "cost", "cost_with_free_tier")
    )
    currency = answer.prices.currency
    for bill in answer.bills:
        for term in bill.terms:
            amounts = term.usd_per_unit, term.usd(False), term.usd(True)
            writer.writerow(
                ("term", bill.controller, term.name, term.quantity, term.unit, *amounts)
            )
        sums = bill.usd(False), bill.usd(True)
        writer.writerow(("sum", bill.controller, "a year", 1, currency, "", *sums))
    for cycles, bills in answer.by_cycles.items():
        for bill in bills:
            sums = bill.usd(False), bill.usd(True)
            writer.writerow(("sum", bill.controller, "by cycles", cycles, "a day", "", *sums))
    for unit, break_evens in (
        ("cycles a day", answer.break_evens),
        ("nodes", answer.break_evens_in_nodes),
    ):
        for against, by_tier in break_evens.items():
            for tier, found in by_tier.items():
                name = f"lambda costs as much, {tier}"
                at = "" if found is None else found
                writer.writerow(("break-even", against, name, at, unit, "", "", ""))
    return text.getvalue().rstrip("\n")


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
