"""Prints for the commands what people read: tables, times, ratios."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from solver_lambda.documents.units import format_duration, format_size
from solver_lambda.documents.words import share_words, time_words

WIDTH = 100


def print_table(rows: Sequence[Sequence[str]], *, wraps: bool = False) -> None:
    """Print a table. The first row names the columns; columns that are empty in all others are left
    out. What is wider than a terminal goes on below if it ``wraps``, each line with its first
    column."""
    kept = [place for place in range(len(rows[0])) if any(row[place] for row in rows[1:])]
    widths = {place: max(len(row[place]) for row in rows) for place in kept}
    first, *rest = kept
    blocks = [[first]]
    for place in rest:
        if wraps and sum(widths[other] + 2 for other in blocks[-1]) + widths[place] > WIDTH:
            blocks.append([first])
        blocks[-1].append(place)
    for block in blocks:
        for row in rows:
            print("  ".join(f"{row[place]:<{widths[place]}}" for place in block).rstrip())


def print_wrapped(text: str, indent: str = "") -> None:
    """Print a paragraph; ``indent`` is for all lines but the first."""
    print(
        textwrap.fill(
            text,
            WIDTH,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,  # a command with options is copied whole
        )
    )


def about(seconds: float) -> str:
    """Return a time in whole units, at least two of them: nobody needs to know an age exactly."""
    if not math.isfinite(seconds):
        return "an unknown time"
    for unit_seconds in (86400, 3600, 60, 1):
        if seconds >= 2 * unit_seconds:
            return _count(round(seconds / unit_seconds), unit_seconds)
    return format_duration(round(max(0.0, seconds), 3))


def _count(count: int, unit_seconds: int) -> str:
    """Say so many of a unit: ``"36h"`` stays that and becomes no day and a half."""
    return f"{count}{format_duration(unit_seconds).removeprefix('1')}"


def age_words(seconds: float) -> str:
    """Say how long ago something was."""
    return f"{about(seconds)} ago"


def size_or(size_bytes: float | None, otherwise: str = "") -> str:
    """Say a size, or ``otherwise`` if it is not known."""
    return otherwise if size_bytes is None else format_size(size_bytes)


def ratio_or(ratio: float | None, otherwise: str = "") -> str:
    """Return a share in percent."""
    return otherwise if ratio is None else f"{share_words(ratio)} %"


def time_or(seconds: float | None, otherwise: str = "") -> str:
    """Return an access time in words."""
    return otherwise if seconds is None else time_words(seconds)
