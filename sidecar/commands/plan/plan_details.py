"""Prints what ``spreds plan --verbose`` says below its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sidecar.commands.curve_words import apart_words
from sidecar.commands.plan.plan_words import guessed, is_learnt
from sidecar.commands.printing import print_table, print_wrapped, ratio_or, time_or
from sidecar.config.prices import Prices
from solver_lambda.documents.words import (
    BACKEND_NOTE,
    reason_words,
    size_words,
    time_words,
    without_backend,
)

_BUDGET_COLUMNS = (
    *("memory for all", "access time", "equal sizes", "hits", "misses/s", "equal sizes"),
    "a month",
)
# What rounds to nothing in per cent.
_NO_GAP = 5e-5


def print_details(plan: dict[str, Any], told: dict[str, Any] | None) -> None:
    """Print reasons, backends, how far curves are known, and what another budget would bring."""
    print()
    for words in reasons_once(plan, told):
        print_wrapped(words, indent="  ")
    print()
    known = plan.get("known_words")
    for found in filter(None, [known, _errors(told) if told else None]):
        print_wrapped(found, indent="  ")
    print_wrapped(_gap_words(plan, knows_little=bool(known)), indent="  ")
    for server in told["servers"] if told else ():
        if apart := apart_words(server):
            print_wrapped(apart)
    _print_budgets(plan, told)


def reasons_once(plan: Mapping[str, Any], told: dict[str, Any] | None) -> Iterator[str]:
    """One that is the same for several servers stands once, and the plan's own stands above."""
    learnt = [server["name"] for server in told["servers"] if is_learnt(server)] if told else []
    reasons: dict[str, list[str]] = {}
    backends: dict[str, list[str]] = {}
    for server in plan["servers"]:
        words = reason_words(server["reason"])
        is_guess = server["name"] in learnt and " ms" in without_backend(words)
        name = f"{server['name']} (a guess)" if is_guess else server["name"]
        reasons.setdefault(without_backend(words), []).append(name)
        if backend := words.partition(BACKEND_NOTE)[2]:
            backends.setdefault(backend, []).append(server["name"])
    reasons.pop(reason_words(plan["reason"]), None)
    for words, names in reasons.items():
        yield f"{', '.join(names)}: {words}"
    for words, names in backends.items():
        yield f"{', '.join(names)}: the backend takes {words}"


def _errors(told: Mapping[str, Any]) -> str | None:
    """Say how far off hit ratios of the curves may be."""
    errors = [
        f"{server['name']} {100 * server['curve_error_ratio']:.1f}"
        for server in told["servers"]
        if server["curve"] is not None
    ]
    return f"hits by the curves may be off, in points: {', '.join(errors)}" if errors else None


def _gap_words(plan: Mapping[str, Any], *, knows_little: bool) -> str:
    gap = plan["optimality_gap"]
    if gap >= 1:
        return "how far it is from the best sizes is not proven"
    by_more = "" if gap < _NO_GAP else f" by more than {gap:.2%}"
    # Of sizes that are kept although better ones are known.
    is_kept = plan["reason"].startswith(("small_gain:", "step_limit:"))
    best = "no division that its rules allow is better than that split"
    if not is_kept:
        best = "no other division that its rules allow is better"
    return f"{'by what is known so far' if knows_little else 'proven'}: {best}{by_more}"


def _print_budgets(plan: Mapping[str, Any], told: dict[str, Any] | None) -> None:
    """Print what other budgets would bring."""
    what_if: Sequence[dict[str, Any]] = plan["what_if"]
    if not what_if:
        return
    print()
    if told and guessed(told):
        print_wrapped("what another budget would bring is not known yet", indent="  ")
        return
    here_bytes = plan["budget_bytes"]
    prices = Prices(**plan["prices"]) if plan.get("prices") else None
    rows = [
        (
            size_words(one["budget_bytes"]) + ", this one" * (one["budget_bytes"] == here_bytes),
            time_or(one["mean_access_time_seconds"]),
            time_or(one.get("equal_sizes_seconds"), "-"),
            ratio_or(one.get("hit_ratio"), "-"),
            _count(one.get("misses_per_second")),
            _count(one.get("equal_sizes_misses_per_second")),
            _month(one, prices),
        )
        for one in sorted(what_if, key=lambda one: int(one["budget_bytes"]))
    ]
    count = len(_BUDGET_COLUMNS) if prices else len(_BUDGET_COLUMNS) - 1
    print_table([row[:count] for row in (_BUDGET_COLUMNS, *rows)])
    print_wrapped(
        "in the end, when all moves are made and have paid, as far as reads have reached"
        + (f"; access times may be off by {off}" if told and (off := _off_words(told)) else ""),
        indent="  ",
    )


def _month(told: Mapping[str, Any], prices: Prices | None) -> str:
    misses = told.get("misses_per_second")
    if prices is None or misses is None:
        return "-"
    return prices.words(prices.month(told["budget_bytes"], misses))


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _off_words(told: Mapping[str, Any]) -> str | None:
    """Say by how much a mean of all servers may be off if each curve errs by itself."""
    known = [one for one in told["servers"] if one["curve"] is not None and one["reads_per_second"]]
    demands = [one["weight"] * one["reads_per_second"] for one in known]
    if not sum(demands) or any(one["backend_latency_seconds"] is None for one in known):
        return None
    squares = [
        (demand * one["backend_latency_seconds"] * one["curve_error_ratio"]) ** 2
        for demand, one in zip(demands, known, strict=True)
    ]
    return time_words(sum(squares) ** 0.5 / sum(demands))
