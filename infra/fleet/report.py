"""Answers as a text, as Markdown, and as JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from infra.fleet.questions import Answer
from solver_lambda.documents.units import format_size

_PER_SECOND = ("waiting_saved", "gain", "loss")


def as_json(answers: Sequence[Answer]) -> dict[str, list[dict[str, Any]]]:
    """Rows by question, by the names of the columns."""
    return {
        found.question.name: [
            dict(zip(found.columns, map(_plain, row), strict=True)) for row in found.rows
        ]
        for found in answers
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it: of a question of one's own it may be anything."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else str(value)


def as_csv(answers: Sequence[Answer]) -> str:
    """Write all rows of the only answer, in bytes and seconds, under the columns' names."""
    (found,) = answers
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([found.columns, *found.rows])
    return text.getvalue().rstrip("\n")


def as_text(answers: Sequence[Answer], most_rows: int) -> str:
    """Format the answers for a terminal."""
    return "\n\n".join(
        "\n".join(
            (found.question.title, *_aligned(_table(found, most_rows)), *_rest(found, most_rows))
        )
        for found in answers
    )


def as_markdown(answers: Sequence[Answer], most_rows: int) -> str:
    """Format the answers for a page."""
    parts = []
    for found in answers:
        head, *rows = _table(found, most_rows)
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
        )
        parts.append("\n".join((f"## {found.question.title}", "", table, *_rest(found, most_rows))))
    return "\n\n".join(parts)


def _rest(found: Answer, most_rows: int) -> list[str]:
    left = len(found.rows) - most_rows
    if not found.rows:
        return [f"({found.question.nothing})"]
    return [f"({left:,} more: --rows)"] if left > 0 else []


def _table(found: Answer, most_rows: int) -> list[list[str]]:
    """Words for each row, without the source where there is only one."""
    places = range(len(found.columns))
    sources = {
        row[i]
        for i in places
        if found.columns[i].endswith("source")
        for row in found.rows
        if row[i] != "all"
    }
    shown = [i for i in places if len(sources) > 1 or not found.columns[i].endswith("source")]
    head = [_heading(found.columns[i]) for i in shown]
    return [
        head,
        *([_words(found.columns[i], row[i]) for i in shown] for row in found.rows[:most_rows]),
    ]


def _heading(column: str) -> str:
    for ending in ("_bytes", "_seconds", "_ratio"):
        column = column.removesuffix(ending)
    unit = ", s/s" if column in _PER_SECOND else ""
    return column.replace("_", " ") + unit


def _words(column: str, value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str):
        # A folder's name may hold what moves a terminal's cursor.
        return value if value.isprintable() else ascii(value)[1:-1]
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return str(value)
    if "bytes" in column:
        sign = "-" if value < 0 else "+" if column.startswith("change") and value else ""
        return f"{sign}{format_size(abs(int(value)))}"
    if column.endswith("_ratio"):
        return f"{value:.1%}"
    if column.startswith("mean_seconds"):
        return f"{value * 1e3:.4g} ms"
    if column.startswith("seconds"):
        return f"{value:,.0f} s"
    if column == "reads" or isinstance(value, int):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
