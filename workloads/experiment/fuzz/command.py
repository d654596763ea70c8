"""``python -m workloads experiment fuzz``.

The C: each target is built with ASan and UBSan, and run by libFuzzer or by a plain driver.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workloads.arguments import positive, seed
from workloads.experiment.fuzz.delivery_parsers import delivery_parsers
from workloads.experiment.fuzz.document_parsers import document_parsers, node_parser
from workloads.experiment.fuzz.mutators import Outcome, Parser, fuzz
from workloads.experiment.fuzz.server_parsers import server_parsers, web_parsers
from workloads.table import say, text_table

_ROOT = Path(__file__).resolve().parents[3]
_HERE = Path(__file__).parent / "c"
CLANG = "clang-16"
PACKAGES = f"{CLANG} libclang-rt-16-dev"
_FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_SHOWN_CHARACTERS = 6000
_SAMPLER = tuple(
    f"redis_patch/core/{part}.c" for part in ("sampler", "transport", "kept_scheduling")
)
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")


class Target(NamedTuple):
    """``<name>_target.c`` and what it calls; ``most_bytes`` is the longest input."""

    name: str
    sources: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    most_bytes: int = 1024


TARGETS = (
    Target("sampler", _SAMPLER, ("-lzmq",)),
    Target("lines", ("sidecar/kernel/lines.c",)),
    Target("stack", ("sidecar/kernel/lru_stack.c", "sidecar/kernel/shards.c")),
)


class Ran(NamedTuple):
    """What became of a target: how many inputs, and what was reported, ``""`` if nothing was."""

    target: str
    runs: int
    report: str


def why_no_libfuzzer() -> str | None:
    """Return what is missing for it, or None."""
    if shutil.which(CLANG) and list(Path("/usr/lib/llvm-16").glob("**/libclang_rt.fuzzer-*.a")):
        return None
    return f"libFuzzer is missing: apt-get install {PACKAGES}"


def run_plainly(target: Target, runs: int, seed: int) -> Ran:
    """Run with gcc alone, and the same inputs each time."""
    with tempfile.TemporaryDirectory(prefix="spreds-fuzz-") as folder:
        program = _build(target, Path(folder), ["cc"], [_HERE / "plain_driver.c"])
        return _run(target, [program, str(runs), str(seed)], runs)


def run_libfuzzer(target: Target, runs: int, seed: int, seconds: int) -> Ran:
    """Run libFuzzer by what its coverage tells; so many inputs, or so long."""
    with tempfile.TemporaryDirectory(prefix="spreds-fuzz-") as folder:
        program = _build(target, Path(folder), [CLANG, "-fsanitize=fuzzer"], [])
        options = [
            f"-runs={runs}",
            f"-seed={seed}",
            f"-max_len={target.most_bytes}",
            f"-max_total_time={seconds}",
            "-print_final_stats=1",
            f"-artifact_prefix={folder}/",
        ]
        return _run(target, [program, *options], runs)


def _build(target: Target, folder: Path, compiler: list[str], more: list[Path]) -> str:
    program = folder / target.name
    sources = [_HERE / f"{target.name}_target.c", *(_ROOT / name for name in target.sources), *more]
    command = [*compiler, *_FLAGS, f"-I{_ROOT / 'redis_patch' / 'core'}", *map(str, sources)]
    subprocess.run([*command, *target.libraries, "-o", str(program)], check=True)
    return str(program)


def _run(target: Target, command: list[str], runs: int) -> Ran:
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    executed = _EXECUTED.search(ended.stderr)
    report = ended.stderr[-_SHOWN_CHARACTERS:] if ended.returncode else ""
    if ended.returncode and not report:
        report = f"it ended with {ended.returncode}"
    return Ran(target.name, int(executed[1]) if executed else runs, report)


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
    """Return all parsers by name."""
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
    """Run and return exit code 0; 1: a finding; 2: it cannot be played so."""
    if arguments.seconds and not arguments.c:
        say("experiment fuzz: --seconds goes with --c; say --mutants")
        return 2
    return _run_c(arguments) if arguments.c else _run_python(arguments)


def _run_c(arguments: argparse.Namespace) -> int:
    if missing := why_no_libfuzzer():
        say(f"experiment fuzz: {missing}")
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
            say(f"experiment fuzz: --parser {name!r} is none of {', '.join(known)}")
            return 2
    shares = sum(known[name].share for name in names)
    outcomes = []
    for name in names:
        mutants = -int(-arguments.mutants * known[name].share // shares)
        outcomes.append(fuzz(known[name], mutants, arguments.seed))
        say(f"{name}: {outcomes[-1].mutants:,}")
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
