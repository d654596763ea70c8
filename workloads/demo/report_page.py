"""``report.html`` of the demonstration: one file, with its pictures in it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from solver_lambda.documents.observation import Observation
from workloads.demo.half import HalfResult
from workloads.demo.kept import kept_in_words
from workloads.demo.report_pictures import (
    MEBIBYTE,
    curves_picture,
    ratios_picture,
    sizes_picture,
)

_STYLE = """
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


@dataclass(frozen=True)
class Report:
    """What the page shows.

    Attributes:
        result: the contents of ``result.json``.
        header, rows: of the table.
        observation: whose curves are drawn, or ``None``.
        decisions: entries of the sidecar's history, the newest last.
    """

    result: dict[str, Any]
    header: list[str]
    rows: list[list[str]]
    static: HalfResult
    spreds: HalfResult
    observation: Observation | None
    decisions: list[dict[str, Any]]


def write_report(report: Report, path: Path) -> None:
    """Write the page."""
    times = report.result["mean_access_time_ms"]
    late = report.result["late_mean_access_time_ms"]
    gain = 1 - times["spreds"] / times["static"]
    path.write_text(
        f"""<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SPREDS: static split against SPREDS</title>
<style>{_STYLE}</style>
<h1>Static split against SPREDS</h1>
<p>Weighted mean access time: <b>{times["static"]:.2f} ms</b> with equal shares,
<b>{times["spreds"]:.2f} ms</b> with SPREDS (<b>{-gain:+.1%}</b>), over the whole load, the time
that SPREDS needed to learn included. In the second half of the load:
{late["static"]:.2f} and {late["spreds"]:.2f} ms. {kept_in_words(report.result["kept_gain"])}.</p>
<p>Budget {report.result["budget_bytes"] / MEBIBYTE:.0f} MiB; the sum of <code>maxmemory</code>
was never above {report.result["max_total_maxmemory_bytes"] / MEBIBYTE:.2f} MiB;
{report.result["cycles"]} cycles; seed {report.result["seed"]}.</p>
{_html_table(report.header, report.rows)}
<p class="soft">EAT, the effective access time, is what a read takes on average: from the cache if
it hits, from the backend if it misses.</p>
<ul>{_loads(report.result["servers"])}</ul>
<h2>Sizes and hit ratios over time</h2>
<div class="pictures">
{_pictures(report)}
</div>
<h2>Miss-ratio curves</h2>
<p>As the last answered observation had them. A circle marks the static share, a dot what SPREDS
gave.</p>
{_curves(report)}
<h2>What the sidecar decided</h2>
<ol>{_decisions(report.decisions)}</ol>
</html>
"""
    )


def _loads(servers: list[dict[str, Any]]) -> str:
    return "".join(
        f"<li><b>{html.escape(server['name'])}</b>: {html.escape(server['load'])}; weight "
        f"{server['weight']:g}, backend {server['backend_latency_ms']:g} ms, "
        f"{server['rate_per_second']:,.0f} requests a second</li>"
        for server in servers
    )


def _html_table(header: list[str], rows: list[list[str]]) -> str:
    """On a narrow screen each row becomes a list, whose items have their column's title."""
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


def _pictures(report: Report) -> str:
    halves = (("equal shares", report.static), ("SPREDS", report.spreds))
    return "\n".join(
        f"<figure style='margin:0'><h3>{what}, {name}</h3>{draw(half)}</figure>"
        for what, draw in (("Sizes", sizes_picture), ("Hit ratios", ratios_picture))
        for name, half in halves
    )


def _curves(report: Report) -> str:
    if report.observation is None:
        return "<p>No observation was answered.</p>"
    return curves_picture(
        report.observation, report.static, report.spreds, report.result["budget_bytes"]
    )


def _decisions(entries: Iterable[dict[str, Any]]) -> str:
    """In whole sentences; plans that keep all sizes, one after the other, become one item."""
    items = []
    for keeps, group in groupby(entries, key=lambda entry: entry.get("decision") == "keep"):
        found = list(group)
        if keeps and len(found) > 1:
            inner = "".join(map(_decision, found))
            words = f"{len(found)} plans kept all sizes."
            items.append(f"<li><details><summary>{words}</summary><ul>{inner}</ul></details></li>")
        else:
            items += map(_decision, found)
    return "".join(items)


def _decision(entry: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(entry["at_seconds"]).astimezone()
    words = html.escape(entry["words"])
    reasons = "".join(
        f"<li><b>{html.escape(name)}</b> {html.escape(reason)}.</li>"
        for name, reason in entry.get("reasons", {}).items()
    )
    reasons = reasons and f"<ul>{reasons}</ul>"
    return f"<li><time>{at:%H:%M:%S}</time> {words[:1].upper()}{words[1:]}.{reasons}</li>"
