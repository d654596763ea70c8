"""``experiment NAME`` of each study: measure, write, draw, and say what came out.

What the command lines of experiments share: figures as JSON, and rows that are played.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from workloads.arguments import (
    ORM_BUSY,
    ORM_NIGHT,
    TWITTER,
    add_figures,
    add_traces,
    output_file,
    positive,
    seed,
    trace_file,
    trace_names,
    write_json,
)
from workloads.experiment.picture import check_matplotlib, draw
from workloads.experiment.study import Data, Scope, Study, StudyError
from workloads.processes import finished
from workloads.table import say, text_table


class Row(Protocol):
    """Something that is played, and has a name."""

    @property
    def name(self) -> str: ...
    @property
    def does(self) -> str: ...
    @property
    def quick(self) -> bool: ...


AnyRow = TypeVar("AnyRow", bound=Row)


def add_rows(parser: argparse.ArgumentParser, at_once: int) -> None:
    """Add options for which rows are played, and how many side by side."""
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="rows whose names have one of these in them"
    )
    parser.add_argument("--list", action="store_true", help="only say which rows there are")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures here")
    parser.add_argument(
        "--at-once", type=positive, default=at_once, help=f"rows side by side (default: {at_once})"
    )


def chosen(
    rows: Iterable[AnyRow], quick: bool = False, only: Sequence[str] | None = None
) -> list[AnyRow]:
    """Choose rows by these options."""
    return [
        row
        for row in rows
        if (row.quick or not quick) and (not only or any(part in row.name for part in only))
    ]


def told_without_playing(
    verb: str, title: str, rows: Sequence[Row], arguments: argparse.Namespace
) -> int | None:
    """The exit code where there is no such row, or they are only listed; else ``None``."""
    if not rows:
        names = " or ".join(map(repr, arguments.only))
        say(f"experiment {verb}: no row has {names} in its name; --list says which there are")
        return 2
    if arguments.list:
        print(text_table([title, "what is done"], [[row.name, row.does] for row in rows]))
        return 0
    return None


PACKAGES = ("numpy", "redis", "pyzmq", "scipy", "matplotlib")
SEEDS = 5


def provenance() -> dict[str, str]:
    """Machine, versions and commit, each in words."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{memory_bytes / (1 << 30):.0f} GiB",
        "system": f"{_distribution()}, Linux {platform.release()}",
        "Python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "an unknown distribution")
    except OSError:
        return "an unknown distribution"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    def git(*words: str) -> str:
        return finished(["git", *words], check=True).stdout.strip()

    try:
        changed = " with changes" if git("status", "--porcelain", "-uno") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git repository)"


class StudyVerb:
    """What ``python -m workloads`` calls: ``HELP``, ``add_arguments`` and ``run``."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self.HELP = study.question

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options, the same for each study."""
        add_scope(parser, *self._study.traces)
        add_figures(parser, "also draw the figures here")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run and return exit code 0; 1: it could not be measured; 2: a package is missing."""
        study = self._study
        if arguments.picture:
            try:
                check_matplotlib()
            except StudyError as error:
                say(f"{study.name}: {error}")
                return 2
        for name in study.traces:
            if not trace_file(arguments.traces, name).exists():
                say(
                    f"{study.name}: there is no {trace_names(name)} in {arguments.traces}: "
                    "measured without it"
                )
        try:
            result = _measured(study, arguments)
        except (StudyError, OSError, RuntimeError) as error:
            say(f"{study.name}: {error}")
            return 1
        write_json(arguments.json, result, allow_nan=False)
        if arguments.picture:
            draw(study, result["data"], arguments.picture)
        print(as_text(study, result["data"]))
        return 0


def add_scope(parser: argparse.ArgumentParser, *traces: str) -> None:
    """Add the options that say how much is measured; ``traces`` are what may be used."""
    parser.add_argument(
        "--quick", action="store_true", help="one seed, and as little as shows that it works"
    )
    parser.add_argument(
        "--seeds", type=positive, metavar="N", help=f"repetitions (default: {SEEDS}; quick: 1)"
    )
    parser.add_argument("--seed", type=seed, default=1, help="the first seed (default: 1)")
    add_traces(parser, *(traces or (TWITTER, ORM_BUSY, ORM_NIGHT)))


def _measured(study: Study, arguments: argparse.Namespace) -> Data:
    count = arguments.seeds or (1 if arguments.quick else SEEDS)
    seeds = tuple(range(arguments.seed, arguments.seed + count))
    started = time.monotonic()
    with _progress(study.name) as progress:
        data = study.measure(Scope(seeds, arguments.quick, arguments.traces, progress))
    return {
        "study": study.name,
        "is_quick": arguments.quick,
        "seeds": seeds,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 1),
        "provenance": provenance(),
        "data": data,
    }


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str, float], None]]:
    """A bar on a terminal; nowhere else."""
    from tqdm import tqdm

    layout = "{desc} {percentage:3.0f} % |{bar}| {elapsed}"
    with tqdm(total=1.0, desc=name, file=sys.stderr, disable=None, bar_format=layout) as bar:

        def progress(what: str, share: float) -> None:
            bar.set_description_str(f"{name}: {what}", refresh=False)
            bar.n = min(share, 1.0)
            bar.refresh()

        yield progress


def as_text(study: Study, data: Data) -> str:
    """Tables and words for a terminal."""
    parts = [f"{study.title}\n{study.question}"]
    parts += [
        f"{table.title}\n{text_table(table.header, table.rows)}" for table in study.tables(data)
    ]
    parts += [study.conclude(data), f"Beside it: {study.beside}"]
    parts += [f"Difference: {words}" for words in study.differences]
    parts += [f"MISSED: {words}" for words in study.missed(data)]
    return "\n\n".join(parts)
