"""What the command lines of experiments share: figures as JSON, and rows that are played."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from workloads.arguments import output_file, picture_file, positive
from workloads.table import text_table


class Row(Protocol):
    """Something that is played, and has a name."""

    @property
    def name(self) -> str: ...
    @property
    def does(self) -> str: ...
    @property
    def quick(self) -> bool: ...


AnyRow = TypeVar("AnyRow", bound=Row)


def say(line: str) -> None:
    """Beside the figures."""
    print(line, file=sys.stderr, flush=True)


def add_figures(parser: argparse.ArgumentParser, picture: str | None = None) -> None:
    """Where figures go: ``--json``, and ``--picture`` where one can be drawn, which says what."""
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="also write the figures here"
    )
    if picture:
        parser.add_argument("--picture", type=picture_file, metavar="FILE", help=picture)


def write_json(file: Path | None, document: object, *, allow_nan: bool = True) -> None:
    """If there is a file for it."""
    if file is not None:
        file.write_text(json.dumps(document, indent=1, allow_nan=allow_nan) + "\n")


def add_rows(parser: argparse.ArgumentParser, at_once: int) -> None:
    """Which rows are played, and how many side by side."""
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
    """By these options."""
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
