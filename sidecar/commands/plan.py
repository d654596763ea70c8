"""``spreds plan FILE``: the last recommended plan, and whether it was carried out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sidecar.commands.arguments import add_command
from sidecar.commands.explain_words import apart_words
from sidecar.commands.plan_words import (
    guessed,
    is_recommended,
    on_their_way,
    plan_in_short,
    print_plan,
)
from sidecar.commands.printing import print_wrapped, size_or
from sidecar.commands.running import status_despite
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "plan",
        "print the last recommended plan as a table, and whether it was carried out",
        file=False,
    )
    parser.add_argument("config", metavar="FILE", nargs="?", help="the node's TOML file")
    parser.add_argument(
        "--document",
        metavar="FILE.json",
        type=Path,
        help="print this plan's document instead; no sidecar is asked",
    )
    parser.set_defaults(execute=execute)


def _counts_from(told: dict[str, Any], plan: dict[str, Any]) -> Iterator[str]:
    """Of servers on their way, from which size the plan counts."""
    has = {server["name"]: server["maxmemory_bytes"] for server in told["servers"]}
    for server in plan["servers"]:
        before, now = server["maxmemory_before_bytes"], has.get(server["name"])
        if before and now not in (None, before) and not plan["carried_out"]:
            yield (
                f"{server['name']} has {size_or(now or None, 'no limit')} so far: the plan counts "
                f"from {format_size(before)}, which was planned before it."
            )


def _errors(told: dict[str, Any]) -> str | None:
    """How far off hit ratios of the curves may be."""
    errors = [
        f"{server['name']} {100 * server['curve_error_ratio']:.1f}"
        for server in told["servers"]
        if server["curve"] is not None
    ]
    return f"hits by the curves may be off, in points: {', '.join(errors)}" if errors else None


def _missing(told: dict[str, Any], plan: dict[str, Any]) -> str | None:
    """Who is in no mean of the plan."""
    planned = {server["name"] for server in plan["servers"]}
    missing = [server["name"] for server in told["servers"] if server["name"] not in planned]
    return f"without {', '.join(missing)}, which did not answer then" if missing else None


def execute(options: argparse.Namespace) -> int:
    """Print it; 1 if there is none yet. Raises DocumentError, SidecarSilentError."""
    if (options.config is None) == (options.document is None):
        raise DocumentError("plan: give either the node's FILE or --document FILE.json")
    unknown: list[str] = []
    guesses: list[str] = []
    apart: list[str | None] = []
    under_way: list[str] = []
    reads: dict[str, float | None] = {}
    if options.document:
        try:
            with options.document.open("rb") as file:
                text = file.read(MAX_PLAN_BYTES + 1)
        except OSError as error:
            raise DocumentError(f"{options.document}: cannot be read: {error.strerror}") from error
        plan: dict[str, Any] = AdaptationPlan.loads(text, str(options.document)).to_json()
    else:
        told = status_despite(options.config)
        if told["last_plan"] is None:
            print("null" if options.json else f"last plan: {plan_in_short(told)}")
            return 1
        plan = told["last_plan"]
        unknown = [server["name"] for server in told["servers"] if server["curve"] is None]
        guesses = guessed(told)
        under_way = on_their_way(told)
        reads = {server["name"]: server["reads_per_second"] for server in told["servers"]}
        apart = [_errors(told), _missing(told, plan), *_counts_from(told, plan)]
        apart += [apart_words(server) for server in told["servers"]]
    if options.json:
        print(json.dumps(plan, indent=1))
    else:
        print_plan(plan, unknown, guesses, under_way, reads)
        for words in filter(None, apart):
            print_wrapped(words)
        if is_recommended(plan):
            guess = ", though what it gains is a guess" if guesses else ""
            print(f"\nto carry it out{guess}: spreds apply {options.config} {plan['cycle']}")
    return 0
