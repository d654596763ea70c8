"""``experiment faults``: every fault has its row, and the table runs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from workloads.arguments import positive, seed, write_json
from workloads.experiment.faults.model.model import KINDS, play_many, replay
from workloads.experiment.faults.rows import (
    cloud_rows,
    network_rows,
    plan_rows,
    role_rows,
    server_rows,
    sidecar_rows,
    state_rows,
)
from workloads.experiment.faults.rows.row import (
    FAILED,
    LEAST_LOOKS_PER_SECOND,
    SKIPPED,
    Outcome,
    Row,
    play_row,
    random_row,
    replayed_row,
)
from workloads.experiment.faults.stage.node_servers import MODULE, PATCH
from workloads.experiment.faults.stage.script import ScriptError
from workloads.experiment.faults.stage.waiting import pause, stop_waiting, wait_again
from workloads.experiment.study_verb import add_rows, chosen, told_without_playing
from workloads.table import say, text_table

ALL_ROWS = [
    *sidecar_rows.ROWS,
    *server_rows.ROWS,
    *role_rows.ROWS,
    *network_rows.ROWS,
    *state_rows.ROWS,
    *plan_rows.ROWS,
    *cloud_rows.ROWS,
]


HELP = """Faults of sidecar, servers, network and cloud, on real servers under load: a table.
Needs 'make setup'; rows of the cloud need moto (pip install '.[dev]'), rows of a disk need root,
and where something is missing a row is skipped and says so. Columns: the longest that the sum of
maxmemory was above the budget M at a stretch, how long it may be, and in which gap (-: never,
none); plans until all was as planned; the log's growth; looks of the observer a second.
docs/operate/faults.md says more. Exit code 0, also with skipped rows; 1: a row failed; 2: wrong
arguments; 130: Ctrl-C, all is undone."""
# So many stages at once keep two cores busy and leave the observers theirs.
AT_ONCE = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--quick",
        action="store_true",
        help="the rows of the gate, 2 to 3 minutes (default: all rows, 13 to 20 minutes)",
    )
    what.add_argument(
        "--random",
        type=positive,
        metavar="N",
        help="N scripts of random faults, half a minute each, four side by side",
    )
    what.add_argument(
        "--model",
        type=positive,
        metavar="N",
        help="N such scripts without servers, on a model, hundreds a second",
    )
    what.add_argument("--replay", type=Path, metavar="FILE", help="the script in this file")
    add_rows(parser, AT_ONCE)
    parser.add_argument(
        "--way",
        choices=(PATCH, MODULE),
        default=PATCH,
        help="patched servers (default), or with the module",
    )
    parser.add_argument(
        "--seed", type=seed, default=1, help="of the first random script (default: 1)"
    )
    parser.add_argument(
        "--under",
        choices=KINDS,
        help="which part of the sidecar plays on the model: with --model (default: resolver), or "
        "with --replay, which has real servers otherwise",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1: a row failed; 2: no such row, or an unreadable script."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        say("experiment faults: interrupted; all that was started is ended")
        raise


def _run(arguments: argparse.Namespace) -> int:
    if why := _contradiction(arguments):
        say(f"experiment faults: {why}")
        return 2
    if arguments.model:
        return play_many(arguments.model, arguments.seed, arguments.under or "resolver")
    try:
        if arguments.replay and arguments.under:
            return replay(arguments.replay, arguments.under)
        rows = _rows(arguments)
    except (ScriptError, UnicodeDecodeError, OSError) as error:
        words = getattr(error, "strerror", None) or error
        say(f"experiment faults: {arguments.replay}: {words}")
        return 2
    code = told_without_playing("faults", "row", rows, arguments)
    if code is not None:
        return code
    outcomes = play_rows(rows, arguments.way, arguments.at_once)
    print(table(rows, outcomes))
    write_json(arguments.json, [asdict(outcome) for outcome in outcomes])
    return int(any(outcome.verdict == FAILED for outcome in outcomes))


def _contradiction(arguments: argparse.Namespace) -> str:
    """Find a contradiction in the options that the parser does not see; empty if there is none."""
    if arguments.only and (arguments.random or arguments.model or arguments.replay):
        return "--only chooses rows of the table, and not with --random, --model or --replay"
    if arguments.under and not (arguments.model or arguments.replay):
        return "--under goes with --model or --replay"
    return ""


def _rows(arguments: argparse.Namespace) -> list[Row]:
    """Choose rows by the options. Raises ScriptError, OSError."""
    if arguments.replay:
        return [replayed_row(arguments.replay)]
    if arguments.random:
        return [random_row(arguments.seed + number) for number in range(arguments.random)]
    return chosen(ALL_ROWS, arguments.quick, arguments.only)


def play_rows(rows: Sequence[Row], way: str = PATCH, at_once: int = AT_ONCE) -> list[Outcome]:
    """Several at once; told as they end."""

    def play(row: Row) -> Outcome:
        pause(0)  # raises where it is not to begin any more
        outcome = play_row(row, way)
        if outcome.verdict != FAILED and 0 < outcome.looks_per_second < LEAST_LOOKS_PER_SECOND:
            words = f"the observer looked only {outcome.looks_per_second:.0f} times a second"
            say(f"{row.name}: {words}")
        say(f"{row.name}: {outcome.verdict} ({outcome.seconds:.0f} s) {outcome.words[:2000]}")
        if outcome.verdict == FAILED and row.script:
            say(f"The script of {row.name}, which --replay FILE plays again:\n{row.script}")
        return outcome

    wait_again()
    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(play, row) for row in rows]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop_waiting()
            raise
        finally:
            for future in futures:
                future.cancel()


def table(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> str:
    """Make a table for people; below it stands what failed or was not played, and why."""
    lines = [
        [
            row.name,
            _seconds(outcome.longest_above_seconds),
            _seconds(row.bound_seconds),
            row.gap or "-",
            str(outcome.cycles),
            f"{outcome.log_bytes_per_second:.0f}",
            f"{outcome.looks_per_second:.0f}",
            outcome.verdict,
        ]
        for row, outcome in zip(rows, outcomes, strict=True)
    ]
    header = ["fault", "above M", "allowed", "gap", "cycles", "log B/s", "looks/s", "verdict"]
    remarks = [
        f"{row.name}: {outcome.verdict}: {outcome.words}"
        for row, outcome in zip(rows, outcomes, strict=True)
        if outcome.verdict in (FAILED, SKIPPED)
    ]
    return "\n".join([text_table(header, lines), "", *remarks]).rstrip()


def _seconds(seconds: float) -> str:
    if seconds == math.inf:
        return "while a gap lasts"
    return f"{seconds:.2f} s" if seconds else "-"
