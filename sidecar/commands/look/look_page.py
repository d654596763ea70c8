"""Writes what a look says as one page that can be mailed: no script, and nothing from elsewhere."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Sequence

import numpy as np

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.look.look_answer import COLUMNS, Answer, rows
from sidecar.commands.look.look_words import headline, notes
from sidecar.commands.printing import about, time_or
from sidecar.look.server_look import Seen
from solver_lambda.documents.plan import ServerPlan
from solver_lambda.documents.units import format_size

_WIDTH, _HEIGHT, _LEFT, _BELOW = 480.0, 200.0, 44.0, 34.0
_POINTS = 200
# How far a curve is drawn: so many times the larger of its server's two sizes.
_REACH = 2.0
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de;
  --curve: #0072b2; --then: #c65000 }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --soft: #9da7b3;
  --line: #3d4754; --curve: #56b4e9; --then: #f28e4b } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; padding: 1.5rem 1rem;
  background: var(--back); color: var(--text); overflow-wrap: anywhere }
.lead { font-size: 1.15rem }
.wide { overflow-x: auto; overflow-wrap: normal; white-space: nowrap }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
.curves { display: grid; gap: 1rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)) }
figure { margin: 1rem 0 0 }
svg { display: block; width: 100%; height: auto }
svg text { font-size: 12px; fill: var(--soft) }
svg line { stroke: var(--line) }
svg .now { stroke: var(--soft); stroke-dasharray: 2 3 }
svg .then { stroke: var(--then); stroke-dasharray: 6 3 }
svg polyline { fill: none; stroke: var(--curve); stroke-width: 2 }
svg .guessed { stroke-dasharray: 4 4 }
.soft, li { color: var(--soft); font-size: .9rem }
"""


def as_page(answer: Answer) -> str:
    """Return an HTML document: the answer, its table, a curve for each server whose curve is
    known."""
    known = [
        (one, planned)
        for one, planned in zip(answer.seen, answer.found.plan.servers, strict=True)
        if one.is_known
    ]
    lead = "".join(f'<p class="lead">{html.escape(words)}</p>' for words in headline(answer))
    curves = "".join(_figure(one, planned) for one, planned in known)
    listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes(answer))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>What these caches could gain</title><style>{_STYLE}</style></head><body>"
        f'<h1>What these caches could gain</h1><p class="soft">{_of_what(answer)}</p>{lead}'
        f'<div class="wide">{_table([COLUMNS, *rows(answer)])}</div>'
        + (
            '<h2>Hits by size</h2><p class="soft">Dotted: the size now. Dashed: the size then. '
            "Where the curve itself is dashed, it is guessed.</p>"
            if curves
            else ""
        )
        + f'<div class="curves">{curves}</div><h2>What to know of it</h2><ul>{listed}</ul>'
        "</body></html>\n"
    )


def _of_what(answer: Answer) -> str:
    """Say when, where and how long it was, and what the figures rest on."""
    costs = [
        f"{html.escape(one.name)} {time_or(one.backend_latency_seconds)}"
        for one in answer.found.observation.servers
    ]
    return (
        f"Looked at {html.escape(os.uname().nodename)} for {about(answer.seconds)}, until "
        f"{time_of_day(answer.found.observation.made_at_seconds)}. To divide: "
        f"{format_size(answer.found.observation.budget_bytes)}. A miss is taken to cost: "
        f"{', '.join(costs)}."
    )


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *body = (
        "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line)
        for tag, line in zip(["th", *["td"] * len(lines)], lines, strict=False)
    )
    below = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{below}</tbody></table>"


def _figure(seen: Seen, planned: ServerPlan) -> str:
    now, then = float(seen.reading.size_bytes), float(planned.maxmemory_bytes)
    name = html.escape(seen.config.name)
    reach = _REACH * max(now, then)
    picture = "".join(_picture(seen, now, then, reach))
    title = f"{name}: hits by size, now {format_size(now)}, then {format_size(then)}"
    return (
        f'<figure><figcaption><strong>{name}</strong></figcaption><svg role="img" '
        f'aria-label="{title}" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}">{picture}</svg></figure>'
    )


def _picture(seen: Seen, now: float, then: float, reach: float) -> Iterator[str]:
    assert seen.estimate is not None

    def across(size_bytes: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 8) * size_bytes / reach

    def down(hit_ratio: float) -> float:
        return 8 + (_HEIGHT - _BELOW - 8) * (1 - hit_ratio)

    for ratio in (0.0, 0.5, 1.0):
        y = down(ratio)
        yield f'<line x1="{_LEFT:.0f}" x2="{_WIDTH - 8:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6:.0f}" y="{y + 4:.1f}" text-anchor="end">{ratio:.0%}</text>'
    # A server that evicts nothing missed only what it never had.
    evicts = seen.misses and seen.reading.maxmemory_bytes
    known_to = min(reach, seen.known_to_bytes) if evicts else reach
    for kind, start, end in (("known", 0.0, known_to), ("guessed", known_to, reach)):
        sizes = np.linspace(start, end, _POINTS)
        hits = 1 - seen.estimate.curve.miss_ratio(sizes)
        points = " ".join(
            f"{across(size):.1f},{down(hit):.1f}" for size, hit in zip(sizes, hits, strict=True)
        )
        yield f'<polyline class="{kind}" points="{points}"/>'
    for kind, size in (("now", now), ("then", then)):
        x = across(size)
        yield f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{down(0):.1f}"/>'
        yield f'<text x="{x + 4:.1f}" y="{20 if kind == "now" else 34}">{kind}</text>'
    for size, anchor in ((0.0, "start"), (reach / 2, "middle"), (reach, "end")):
        words = format_size(round(size / (1 << 10)) << 10) if size else "0"
        yield (
            f'<text x="{across(size):.1f}" y="{_HEIGHT - 10:.0f}" '
            f'text-anchor="{anchor}">{words}</text>'
        )
