"""``python -m workloads experiment fuzz``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from workloads.arguments import positive, seed
from workloads.experiment.fuzz.c_targets import TARGETS, run_libfuzzer, why_no_libfuzzer
from workloads.experiment.fuzz.delivery_parsers import delivery_parsers
from workloads.experiment.fuzz.document_parsers import document_parsers, node_parser
from workloads.experiment.fuzz.fuzzing import Outcome, Parser, fuzz
from workloads.experiment.fuzz.server_parsers import server_parsers
from workloads.experiment.fuzz.web_parsers import web_parsers
from workloads.table import text_table

_MAKERS: tuple[Callable[[], list[Parser]], ...] = (
    document_parsers,
    delivery_parsers,
    server_parsers,
    web_parsers,
    lambda: [node_parser()],
)
HELP = """Mutants of well-formed input for all that reads input from outside: each is read, or
refused by a documented error in one printable line. The default is the Python readers, which need
no server; --c is the C, by libFuzzer, and needs clang-16 (apt-get install clang-16
libclang-rt-16-dev). Columns: accepted and refused mutants, findings (neither), processor time.
Exit code 1 with the input where there is a finding; 2: wrong arguments, or clang is missing. A seed
draws the same mutants again. docs/develop/fuzzing.md names the parsers."""
# The most for each of the C targets.
C_SECONDS = 600
_SHOWN_BYTES = 2000


def parsers() -> dict[str, Parser]:
    """By name."""
    return {parser.name: parser for make in _MAKERS for parser in make()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parser", action="append", metavar="NAME", help="default: all of them")
    parser.add_argument(
        "--mutants",
        type=positive,
        default=100_000,
        help="of all parsers together, or of each target with --c (default: 100,000)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="default: 1")
    parser.add_argument(
        "--c", action="store_true", help="the sampler and the sidecar's kernel by libFuzzer instead"
    )
    parser.add_argument(
        "--seconds", type=positive, help=f"only with --c: the most for each (default: {C_SECONDS})"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1: a finding; 2: it cannot be played so."""
    if arguments.seconds and not arguments.c:
        print("experiment fuzz: --seconds goes with --c; say --mutants", file=sys.stderr)
        return 2
    return _run_c(arguments) if arguments.c else _run_python(arguments)


def _run_c(arguments: argparse.Namespace) -> int:
    if missing := why_no_libfuzzer():
        print(f"experiment fuzz: {missing}", file=sys.stderr)
        return 2
    ran = [
        run_libfuzzer(target, arguments.mutants, arguments.seed, arguments.seconds or C_SECONDS)
        for target in TARGETS
    ]
    rows = [[one.target, f"{one.runs:,}", "something" if one.report else "nothing"] for one in ran]
    print(text_table(["target", "runs", "reported"], rows))
    for one in ran:
        if one.report:
            print(f"\n{one.target}:\n{one.report}")
    return 1 if any(one.report for one in ran) else 0


def _run_python(arguments: argparse.Namespace) -> int:
    known = parsers()
    names = arguments.parser or list(known)
    for name in names:
        if name not in known:
            print(
                f"experiment fuzz: --parser {name!r} is none of {', '.join(known)}", file=sys.stderr
            )
            return 2
    shares = sum(known[name].share for name in names)
    outcomes = []
    for name in names:
        mutants = -int(-arguments.mutants * known[name].share // shares)
        outcomes.append(fuzz(known[name], mutants, arguments.seed))
        print(f"{name}: {outcomes[-1].mutants:,}", file=sys.stderr)
    print(_table(outcomes))
    for outcome in outcomes:
        for finding, data in outcome.findings:
            print(f"\n{outcome.parser}: {finding}\n{data[:_SHOWN_BYTES]!r}")
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _table(outcomes: list[Outcome]) -> str:
    rows = [
        [
            outcome.parser,
            f"{outcome.mutants:,}",
            f"{outcome.accepted:,}",
            f"{outcome.refused:,}",
            f"{len(outcome.findings):,}",
            f"{outcome.seconds:.0f}",
        ]
        for outcome in outcomes
    ]
    total = [
        f"{sum(o.mutants for o in outcomes):,}",
        f"{sum(o.accepted for o in outcomes):,}",
        f"{sum(o.refused for o in outcomes):,}",
        f"{sum(len(o.findings) for o in outcomes):,}",
        f"{sum(o.seconds for o in outcomes):.0f}",
    ]
    header = ["parser", "mutants", "accepted", "refused", "findings", "CPU s"]
    return text_table(header, [*rows, ["all", *total]])
