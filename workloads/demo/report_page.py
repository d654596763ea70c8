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
    waits_picture,
)
from workloads.demo.scenario import DemoServer
from workloads.page_style import STYLE, html_table


@dataclass(frozen=True)
class Report:
    """What the page shows.

    Attributes:
        result: the contents of ``result.json``.
        servers: what was asked of them.
        header, rows: of the table.
        observation: whose curves are drawn, or ``None``.
        decisions: entries of the sidecar's history, the newest last.
    """

    result: dict[str, Any]
    servers: list[DemoServer]
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
<style>{STYLE}</style>
<h1>Static split against SPREDS</h1>
<p>Weighted mean access time: <b>{times["static"]:.2f} ms</b> with equal shares,
<b>{times["spreds"]:.2f} ms</b> with SPREDS (<b>{-gain:+.1%}</b>), over the whole load, the time
that SPREDS needed to learn included. In the second half of the load:
{late["static"]:.2f} and {late["spreds"]:.2f} ms. {kept_in_words(report.result["kept_gain"])}.</p>
{waits_picture(report.servers, report.static, report.spreds)}
<p>Budget {report.result["budget_bytes"] / MEBIBYTE:.0f} MiB; the sum of <code>maxmemory</code>
was never above {report.result["max_total_maxmemory_bytes"] / MEBIBYTE:.2f} MiB;
{report.result["cycles"]} cycles; seed {report.result["seed"]}.</p>
{html_table(report.header, report.rows)}
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
