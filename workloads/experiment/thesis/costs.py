"""Figure 8.6 and Table 8.7: what the controller costs a year, over cycles a day.

The cost model's answer, by the command that anybody would use.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from workloads.experiment.study import Data, Figure, Headline, Scope, Study, StudyError, Table
from workloads.processes import finished


def ask_cost_model(*options: str) -> dict[str, Any]:
    """Return what ``python -m infra.costs --json`` prints.

    Raises:
        StudyError: it cannot be asked.
    """
    done = finished([sys.executable, "-m", "infra.costs", "--json", *options])
    if done.returncode:
        raise StudyError(f"python -m infra.costs: {done.stderr.strip() or done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


CONTROLLERS = {
    "lambda": "Lambda",
    "fargate": "Fargate",
    "instance": "always-on t4g.micro",
    "http": "the same, asked over HTTP",
    "embedded": "in the sidecar",
}
CELLS = {"thesis": "the thesis' bill, recomputed", **CONTROLLERS}
STYLES = {
    "thesis": "k:",
    "lambda": "C0o-",
    "fargate": "C1s-",
    "instance": "C7^-",
    "http": "C2v-",
    "embedded": "C4-",
}
# Below it the axis is straight, so that what costs nothing has a place.
STRAIGHT_BELOW_USD = 0.05
HOURLY = "24"


def measure(scope: Scope) -> Data:
    """The cost model's answer; nothing in it is random.

    Raises:
        StudyError: the model cannot be asked.
    """
    scope.progress("asking the cost model", 0.0)
    answer = ask_cost_model()
    thesis = answer["thesis"]
    years = {
        cycles: {"thesis": thesis["cycles_per_day"][cycles], **bills}
        for cycles, bills in answer["cycles_per_day"].items()
    }
    return {
        "prices": answer["prices"],
        "years": years,
        "shares": answer["controllers"]["lambda"],
        "terms": thesis["terms"],
        "findings": thesis["findings"],
        "always_on_usd": thesis["always_on_usd"],
    }


def conclude(data: Data) -> str:
    """Our bill beside the thesis'."""
    year = data["years"][HOURLY]
    ours, theirs = year["lambda"], year["thesis"]
    return (
        f"A year of hourly cycles of one node costs {_usd(ours['nodes_usd'])} on Lambda without "
        f"AWS' free tier, and {_usd(ours['stack_usd'])} more for the stack's alarms, which all "
        f"nodes share; the thesis' inputs give {_usd(theirs['usd'])} (its text says $10.13), and "
        f"{_usd(theirs['usd_with_free_tier'])} with the free tier (its text: $1.92)."
    )


def tables(data: Data) -> list[Table]:
    """Figure 8.6 in numbers, Table 8.7 again, and what was checked."""
    years = data["years"]
    header = ["cycles a day", *CELLS.values()]
    return [
        Table(
            f"Dollars a year, {what} (prices of {data['prices']['date']}, "
            f"{data['prices']['region']})",
            header,
            [
                [f"{int(cycles):,}", *(_usd(bills[cell][key]) for cell in CELLS)]
                for cycles, bills in years.items()
            ],
        )
        for what, key in (("without the free tier", "usd"), ("with it", "usd_with_free_tier"))
    ] + [
        Table(
            "The thesis' bill of a year of hourly cycles, recomputed from its Table 8.7 (which is "
            "of one cycle); Lambda's requests and SNS' publishes are added, which AWS bills too",
            ["item", "quantity", "without free tier", "with it"],
            [
                [
                    term["name"],
                    f"{_quantity(term['quantity'])} {term['unit']}",
                    _usd(term["usd"]),
                    _usd(term["usd_with_free_tier"]),
                ]
                for term in data["terms"]
            ],
        ),
        Table(
            "The thesis' figures, recomputed from its own inputs",
            ["figure", "thesis", "recomputed", "remark"],
            [[one[key] for key in one] for one in data["findings"]],
        ),
    ]


def draw(figure: Figure, data: Data) -> None:
    """Draw without the free tier on the left, with it on the right."""
    panels = figure.subplots(1, 2, sharey=True)
    for panel, key, title in zip(
        panels, ("usd", "usd_with_free_tier"), ("without free tier", "with free tier"), strict=True
    ):
        for cell, style in STYLES.items():
            points = [(int(cycles), bills[cell][key]) for cycles, bills in data["years"].items()]
            panel.plot(*zip(*points, strict=True), style, markersize=3, label=CELLS[cell])
        panel.axhline(data["always_on_usd"], color="0.7", label="the thesis' always-on machine")
        panel.set(xscale="log", xlabel="cycles a day", title=title)
        panel.set_yscale("symlog", linthresh=STRAIGHT_BELOW_USD)
        panel.set_ylim(bottom=-STRAIGHT_BELOW_USD / 5)
        panel.grid(alpha=0.3)
    prices = data["prices"]
    panels[0].set_ylabel(f"USD a year, prices of {prices['date']}, {prices['region']}")
    panels[0].legend(fontsize="x-small")


def headlines(data: Data) -> list[Headline]:
    """The year of one node."""
    year = data["years"][HOURLY]["lambda"]
    return [
        Headline(
            "a year of hourly cycles on Lambda for one node, without AWS' free tier and without "
            "the stack's alarms",
            _usd(year["nodes_usd"]),
            "$10.13; its inputs give $8.94",
        )
    ]


def _quantity(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:,.3g}"


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.1 or not amount else f"${amount:,.4f}"


STUDY = Study(
    name="figure-8-6",
    title="Figure 8.6 and Table 8.7: what the controller costs",
    question="What does the serverless controller cost a year beside an always-on one?",
    beside=(
        "$1.92 a year with the free tier and $10.13 without, 0.85 % and less than 5 % of an "
        "always-on machine, which is cheaper from 606 cycles a day on (section 8.5.4)."
    ),
    method=(
        "`python -m infra.costs`: quantities of a cycle, times prices with a date; what the "
        "function takes was measured (`infra/costs/measured.json`). Nothing has run on AWS."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The thesis' two sums do not follow from its own inputs, as the last table shows; its 606 "
        "cycles do, without the free tier.",
        "Ours are lower because a function that plans in a tenth of a second is not billed for a "
        "minute, and because curves are stored, and not samples.",
        "The thesis' curve for a minute of Fargate has no counterpart: it gives neither the size "
        "of the container nor its price. Our Fargate is that of our own function.",
    ),
    size_inches=(8.0, 3.6),
)
