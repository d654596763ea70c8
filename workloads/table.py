"""Results as text: tables, sizes, times; and how our pages look.

They have one style, in light and dark, and tables that fold on narrow screens.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence


def say(line: str) -> None:
    """Print a line beside the figures, on stderr."""
    print(line, file=sys.stderr, flush=True)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of one width; the first is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)]).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def mebibytes(size_bytes: float) -> str:
    """Format bytes, for example ``16.0 MiB``."""
    return f"{size_bytes / (1 << 20):,.1f} MiB"


def milliseconds(seconds: float) -> str:
    """Format a time, for example ``12.34 ms``."""
    return f"{seconds * 1000:,.2f} ms"


def percent(ratio: float) -> str:
    """Format a ratio, for example ``98.7 %``."""
    return f"{ratio * 100:.1f} %"


def signed_percent(ratio: float, digits: int = 1) -> str:
    """Format a ratio with its sign, for example ``−1.3 %`` or ``+0.4 %``."""
    return f"{ratio * 100:+.{digits}f} %".replace("-", "−")


STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de;
  --c0: #0072b2; --c1: #c65000; --c2: #00805c; --c3: #a84d88; --c4: #8a6d00 }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #e6edf3; --soft: #9da7b3; --line: #3d4754;
    --c0: #56b4e9; --c1: #f28e4b; --c2: #2fc79a; --c3: #e29cc6; --c4: #e5c04a } }
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; max-width: 64rem; margin: 0 auto;
  padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--text); overflow-wrap: anywhere }
h1, h2 { line-height: 1.25 }
h2 { margin: 2rem 0 .5rem }
h3 { margin: .5rem 0 0; font-size: 1rem }
.pictures { display: grid; gap: 1rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)) }
svg { display: block; width: 100%; max-width: 30rem; height: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
li { margin: .4rem 0 }
.soft, time { color: var(--soft); font-size: .9rem }
ol { padding-left: 0; list-style: none }
summary { cursor: pointer }
:focus-visible { outline: 3px solid var(--c0); outline-offset: 2px }
@media (max-width: 46rem) {
  table, tbody, tr, td { display: block }
  thead { position: absolute; left: -100rem }
  tr { padding: .6rem 0; border-bottom: 1px solid var(--line) }
  td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .15rem 0 }
  td:first-child { font-weight: 700 }
  td:not(:first-child)::before { content: attr(data-title); color: var(--soft) } }
"""


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Make a table: on a narrow screen each row becomes a list, with its column's titles."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title in header)
    titles = [
        html.escape(before.replace("before", "after") if title == "after" else title, quote=True)
        for before, title in zip(["", *header], header, strict=False)
    ]
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-title="{title}">{html.escape(cell)}</td>'
            for title, cell in zip(titles, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
