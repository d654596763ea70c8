"""``experiment attacks``: what strangers may try, against a whole sidecar with real servers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from workloads.arguments import output_file, positive
from workloads.experiment.attacks.rows.all_rows import ALL_ATTACKS
from workloads.experiment.attacks.stage.attack import FELL, OK, Attack, Outcome, play_attack
from workloads.table import text_table

HELP = """Attacks on orders, listeners, locks, files, samples, plans and documents, each against
a sidecar of its own with real servers: a table. Needs 'make setup'; what needs root or another
user is skipped where that is missing, and says so. Who is trusted: docs/operate/security.md.
Exit code 0: all held, or were skipped; 1: one had an effect; 2: wrong arguments."""
AT_ONCE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("--quick", action="store_true", help="the rows of the gate (default: all)")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="rows whose names have one of these in them"
    )
    parser.add_argument("--list", action="store_true", help="only say which rows there are")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures here")
    parser.add_argument(
        "--at-once", type=positive, default=AT_ONCE, help=f"rows side by side (default: {AT_ONCE})"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1: an attack had an effect; 2: there is no such row."""
    attacks = chosen(arguments.quick, arguments.only)
    if not attacks:
        names = " or ".join(map(repr, arguments.only))
        print(
            f"experiment attacks: no row has {names} in its name; --list says which there are",
            file=sys.stderr,
        )
        return 2
    if arguments.list:
        print(text_table(["attack", "what is done"], [[one.name, one.does] for one in attacks]))
        return 0
    outcomes = play_attacks(attacks, arguments.at_once)
    print(table(attacks, outcomes))
    if arguments.json:
        write_json(arguments.json, outcomes)
    return int(any(outcome.verdict == FELL for outcome in outcomes))


def chosen(quick: bool, only: Sequence[str] | None = None) -> list[Attack]:
    """The rows by the options."""
    return [
        attack
        for attack in ALL_ATTACKS
        if (attack.quick or not quick) and (not only or any(part in attack.name for part in only))
    ]


def play_attacks(attacks: Sequence[Attack], at_once: int = AT_ONCE) -> list[Outcome]:
    """Several at once; each is told as it ends."""

    def play(attack: Attack) -> Outcome:
        outcome = play_attack(attack)
        words = f"{attack.name}: {outcome.verdict} ({outcome.seconds:.0f} s) {outcome.words}"
        print(words.rstrip(), file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(play, attacks))


def table(attacks: Sequence[Attack], outcomes: Sequence[Outcome]) -> str:
    """For people; below it why rows fell or were skipped."""
    lines = [
        [attack.name, "held before" if attack.held else "fell before", outcome.verdict]
        for attack, outcome in zip(attacks, outcomes, strict=True)
    ]
    remarks = [f"{one.name}: {one.verdict}: {one.words}" for one in outcomes if one.verdict != OK]
    return "\n".join([text_table(["attack", "once", "now"], lines), "", *remarks]).rstrip()


def write_json(path: Path, outcomes: Sequence[Outcome]) -> None:
    """All outcomes, as a list."""
    path.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
