"""Questions over the plans of all nodes.

    python -m infra.fleet FOLDER                        # of nodes with kind = "embedded"
    python -m infra.fleet 's3://spreds-*plans-*'        # of all cells of a stack
    python -m infra.fleet FOLDER s3://BUCKET --ask teams --month 2026-11 --markdown
    python -m infra.fleet FOLDER --sql 'SELECT node, count(*) AS plans FROM counted GROUP BY node'

It answers which nodes lack memory, what a GiB is worth on each, what was saved, and which teams
lost what. It also answers what should move between nodes, and which size each machine should have.
All figures are what planners predict by the curves that were seen, not measured.

Exit codes: 0 answered, 1 some documents were no plans, or are from the future, and are left out, or
the month has none, 2 nothing could be asked.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from infra.closed_pipe import exit_code
from infra.fleet.plan_sources import SourceError, find_sources
from infra.fleet.plan_store import Loaded, PlanStore, StoreError
from infra.fleet.questions import QUESTIONS, Answer, Asked, answer, answer_to, prepare
from infra.fleet.report import as_csv, as_json, as_markdown, as_text
from solver_lambda.documents.units import format_size, parse_duration, parse_size

DAY_SECONDS = 86_400
SHOWN_REFUSALS = 20
# A plan's cycle is no less than the time of its observation, which it may answer so much later.
ANSWER_SECONDS = 3600
CLOCK_SECONDS = 300


class NoPlansError(Exception):
    """The month has no plans; the message names it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.ask and options.sql:
        parser.error("--sql asks something else than --ask: give one of them")
    if options.csv and len(options.ask or options.sql or QUESTIONS) != 1:
        parser.error("--csv needs one --ask or --sql: each question has columns of its own")
    try:
        answers, loaded, ahead, told = _ask(options)
    except NoPlansError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    except (SourceError, StoreError) as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 2
    for why in (*loaded.refused[:SHOWN_REFUSALS], *ahead[:SHOWN_REFUSALS]):
        print(f"fleet: left out: {why}", file=sys.stderr)
    if loaded.refused:
        print(f"fleet: {len(loaded.refused):,} documents are no plans", file=sys.stderr)
    if ahead:
        print(f"fleet: {len(ahead):,} nodes have plans from the future", file=sys.stderr)
    print(f"fleet: {told}", file=sys.stderr)
    if options.json:
        print(json.dumps(as_json(answers), indent=1, allow_nan=False))
    elif options.csv:
        print(as_csv(answers))
    else:
        print((as_markdown if options.markdown else as_text)(answers, options.rows))
    return 1 if loaded.refused or ahead else 0


def _ask(options: argparse.Namespace) -> tuple[list[Answer], Loaded, list[str], str]:
    """Answers, what was read, nodes with plans from the future, and what was asked about in words.

    Raises:
        NoPlansError, SourceError, StoreError
    """
    sources = find_sources(options.source)
    begin, end = options.month or (0.0, 0.0)
    with PlanStore(None if options.no_cache else options.cache) as store:
        loaded = store.load(sources, int(max(0.0, begin - ANSWER_SECONDS)))
        if not loaded.plans and not options.month:
            raise SourceError(
                f"{', '.join(options.source)}: no plans there; a node that plans for itself puts "
                "them where [controller] folder says"
            )
        # A plan of a clock that is wrong would end the period, or seem to be all others' successor.
        latest = time.time() + CLOCK_SECONDS
        if options.month:
            end = min(end, latest)
        else:
            end = math.nextafter(min(store.newest_seconds(), latest), math.inf)
            begin = end - options.days * DAY_SECONDS
        asked = Asked(
            from_seconds=begin,
            to_seconds=end,
            step_bytes=options.step,
            ended_seconds=options.ended,
            lack_ratio=options.lack,
            size_ratio=options.enough,
        )
        prepare(store, asked)
        if options.month and not store.ask("SELECT 1 FROM counted LIMIT 1")[1]:
            where = ", ".join(options.source)
            raise NoPlansError(f"{where}: no plan there is of {_day(begin)[:7]}")
        step = format_size(options.step)
        chosen = [q.with_step(step) for q in QUESTIONS if not options.ask or q.name in options.ask]
        if options.sql:
            answers = [answer_to(store, text) for text in options.sql]
        else:
            answers = [answer(store, question) for question in chosen]
        told = f"{loaded.plans:,} plans, {loaded.read:,} new documents"
        ahead = store.from_the_future(latest)
    period = f"{_day(begin)} to {_day(end)}"
    return answers, loaded, ahead, f"{told}; {period}; predicted, not measured"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("source", nargs="+", help="a folder, s3://BUCKET, or a pattern of buckets")
    add("--ask", action="append", choices=[q.name for q in QUESTIONS], help="only this; again")
    add("--sql", action="append", metavar="TEXT", help="ask this of the same tables instead; again")
    add("--month", type=_month, metavar="YYYY-MM", help="the period, in UTC")
    add("--days", type=_positive, default=31.0, help="or so many before the newest plan (31)")
    add("--step", type=_size, default=1 << 30, help="memory given or taken (1GiB)")
    add(
        "--ended",
        type=_duration,
        default=float(DAY_SECONDS),
        help="a node without a plan for so long before the newest of all is not there now (1d)",
    )
    add("--lack", type=_positive, default=0.05, help="ratio, see nodes.sql (0.05)")
    add("--enough", type=_positive, default=0.02, help="ratio, see sizes.sql (0.02)")
    add("--rows", type=_rows, default=20, help="of each table, not of --json (20)")
    add("--cache", type=Path, default=_default_cache(), help="file that keeps what was read")
    add("--no-cache", action="store_true", help="read everything, keep nothing")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="all rows, in bytes and seconds")
    form.add_argument("--csv", action="store_true", help="the same, of one question")
    form.add_argument("--markdown", action="store_true", help="for a page")
    return parser


def _month(text: str) -> tuple[float, float]:
    """Return the first second of the month, and of the next one."""
    try:
        first = datetime.datetime.strptime(text, "%Y-%m").replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a month as 2026-11, not {text!r}") from error
    following = (first + datetime.timedelta(days=31)).replace(day=1)
    return first.timestamp(), following.timestamp()


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def _rows(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "spreds" / "fleet.duckdb"


def _day(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(max(0.0, seconds), datetime.UTC).date().isoformat()


if __name__ == "__main__":
    sys.exit(exit_code(main))
