"""``experiment attacks``: what strangers may try, against a whole sidecar with real servers.

Every attack of the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from workloads.arguments import write_json
from workloads.experiment.attacks.rows import (
    byte_rows,
    claim_rows,
    creep_rows,
    file_rows,
    flood_rows,
    held_rows,
    impostor_rows,
    listener_rows,
    name_rows,
    notification_rows,
    order_rows,
    plan_rows,
    sample_crowd_rows,
    sample_rows,
)
from workloads.experiment.attacks.stage.attack import FELL, OK, Attack, Outcome, play_attack
from workloads.experiment.study_verb import add_rows, chosen, told_without_playing
from workloads.table import say, text_table

ALL_ATTACKS: list[Attack] = [
    *order_rows.ROWS,
    *flood_rows.ROWS,
    *listener_rows.ROWS,
    *name_rows.ROWS,
    *file_rows.ROWS,
    *sample_rows.ROWS,
    *sample_crowd_rows.ROWS,
    *plan_rows.ROWS,
    *creep_rows.ROWS,
    *notification_rows.ROWS,
    *claim_rows.ROWS,
    *impostor_rows.ROWS,
    *byte_rows.ROWS,
    *held_rows.ROWS,
]


HELP = """Attacks on orders, listeners, locks, files, samples, plans and documents, each against
a sidecar of its own with real servers: a table. Needs 'make setup'; what needs root or another
user is skipped where that is missing, and says so. Who is trusted: docs/operate/security.md.
Exit code 0: all held, or were skipped; 1: one had an effect; 2: wrong arguments."""
AT_ONCE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="the rows of the gate (default: all)")
    add_rows(parser, AT_ONCE)


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1: an attack had an effect; 2: there is no such row."""
    attacks = chosen(ALL_ATTACKS, arguments.quick, arguments.only)
    code = told_without_playing("attacks", "attack", attacks, arguments)
    if code is not None:
        return code
    outcomes = play_attacks(attacks, arguments.at_once)
    print(table(attacks, outcomes))
    write_json(arguments.json, [asdict(outcome) for outcome in outcomes])
    return int(any(outcome.verdict == FELL for outcome in outcomes))


def play_attacks(attacks: Sequence[Attack], at_once: int = AT_ONCE) -> list[Outcome]:
    """Several at once; each is told as it ends."""

    def play(attack: Attack) -> Outcome:
        outcome = play_attack(attack)
        words = f"{attack.name}: {outcome.verdict} ({outcome.seconds:.0f} s) {outcome.words}"
        say(words.rstrip())
        return outcome

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(play, attacks))


def table(attacks: Sequence[Attack], outcomes: Sequence[Outcome]) -> str:
    """Make a table for people; below it stands why rows fell or were skipped."""
    lines = [
        [attack.name, "held before" if attack.held else "fell before", outcome.verdict]
        for attack, outcome in zip(attacks, outcomes, strict=True)
    ]
    remarks = [f"{one.name}: {one.verdict}: {one.words}" for one in outcomes if one.verdict != OK]
    return "\n".join([text_table(["attack", "once", "now"], lines), "", *remarks]).rstrip()
