"""``spreds plan FILE``: the last recommended plan, and whether it was carried out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sidecar.commands.arguments import add_command
from sidecar.commands.plan_table import print_plan
from sidecar.commands.plan_words import guessed, is_recommended, plan_in_short
from sidecar.commands.running import status_despite
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError


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
        help="print the plan in this file instead; no sidecar is asked",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print reasons, other budgets and more beside it"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print it; 1 if there is none yet. Raises DocumentError, SidecarSilentError."""
    if (options.config is None) == (options.document is None):
        raise DocumentError("plan: give either the node's FILE or --document FILE.json")
    told: dict[str, Any] | None = None
    if options.document:
        plan = _from_file(options.document)
    else:
        told = status_despite(options.config)
        plan = told["last_plan"]
        if plan is None:
            print("null" if options.json else f"last plan: {plan_in_short(told)}")
            return 1
    if options.json:
        print(json.dumps(plan, indent=1))
        return 0
    print_plan(plan, told, is_verbose=options.verbose)
    if told and is_recommended(plan):
        guess = ", though what it gains is a guess" if guessed(told) else ""
        print(f"\nto carry it out{guess}: spreds apply {options.config} {plan['cycle']}")
    if not options.verbose:
        print("--verbose has reasons, backends, other budgets, and how sure that is")
    return 0


def _from_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    return AdaptationPlan.loads(text, str(path)).to_json()
