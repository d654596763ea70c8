"""``report.html`` of the demonstration: one file, with its pictures in it.

The pictures of ``report.html``: sizes and hit ratios over time, and the curves.

They are SVG with text as text, and take their colours from the page, which has them light and
dark.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from solver_lambda.documents.observation import Observation
from workloads.demo.half import HalfResult, kept_in_words, mean_access_time_seconds
from workloads.demo.scenario import DemoServer
from workloads.table import STYLE, html_table

MEBIBYTE = 1 << 20
# A picture is shown at about its own size on a telephone, and two stand side by side elsewhere.
WIDTH_INCHES = 3.9
# Of a second each; over fewer, chance would be most of what is seen.
_WINDOW_SAMPLES = 5
# Matplotlib writes colours as numbers: these stand for those of the page.
_INK, _FRAME = "#010203", "#030201"
_SERVERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
_OF_PAGE = {
    _INK: "currentColor",
    _FRAME: "var(--line)",
    **{colour: f"var(--c{place})" for place, colour in enumerate(_SERVERS)},
}


def sizes_picture(half: HalfResult) -> str:
    """Draw ``maxmemory`` of each server over time."""

    def draw(axis: Any) -> None:
        seconds = [sample.seconds for sample in half.samples]
        for server, colour in zip(half.maxmemory_bytes, _SERVERS, strict=False):
            sizes = [sample.maxmemory_bytes[server] / MEBIBYTE for sample in half.samples]
            axis.step(seconds, sizes, where="post", color=colour, label=server)
        axis.set(xlabel="seconds", ylabel="maxmemory, MiB")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")

    return _picture(draw)


def waits_picture(servers: list[DemoServer], static: HalfResult, spreds: HalfResult) -> str:
    """The weighted mean access time of both halves over time; the report's headline."""

    def draw(axis: Any) -> None:
        for name, half, colour in zip(
            ("equal shares", "SPREDS"), (static, spreds), _SERVERS, strict=False
        ):
            seconds, waits = _waits(servers, half)
            axis.plot(seconds, waits, color=colour, label=name)
        axis.set(xlabel="seconds", ylabel="mean access time, ms")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")

    return _picture(draw)


def _waits(servers: list[DemoServer], half: HalfResult) -> tuple[list[float], list[float]]:
    """Return seconds, and the milliseconds in the ``_WINDOW_SAMPLES`` before them."""
    pairs = list(zip(half.samples, half.samples[_WINDOW_SAMPLES:], strict=False))
    waits = []
    for before, after in pairs:
        window = {name: tally.minus(before.tallies[name]) for name, tally in after.tallies.items()}
        waits.append(1e3 * mean_access_time_seconds(servers, window))
    return [after.seconds for _, after in pairs], waits


def ratios_picture(half: HalfResult) -> str:
    """The hit ratio of each server over time."""

    def draw(axis: Any) -> None:
        seconds = [sample.seconds for sample in half.samples]
        for server, colour in zip(half.maxmemory_bytes, _SERVERS, strict=False):
            axis.plot(seconds, [sample.hit_ratio[server] for sample in half.samples], color=colour)
        axis.set(xlabel="seconds", ylabel="hit ratio", ylim=(0, 1))

    return _picture(draw)


def curves_picture(
    observation: Observation, static: HalfResult, spreds: HalfResult, budget_bytes: int
) -> str:
    """Draw each server's curve, with a circle at its static share and a dot at SPREDS' one."""

    def draw(axis: Any) -> None:
        for server, colour in zip(observation.servers, _SERVERS, strict=False):
            curve = server.curve
            inside = curve.sizes_bytes <= budget_bytes
            sizes = curve.sizes_bytes[inside] / MEBIBYTE
            axis.plot(sizes, curve.miss_ratios[inside], color=colour, label=server.name)
            for half, fill in ((static, "none"), (spreds, colour)):
                size_bytes = half.maxmemory_bytes[server.name]
                place = (size_bytes / MEBIBYTE, curve.miss_ratio(size_bytes))
                axis.plot(*place, "o", color=colour, markerfacecolor=fill)
        axis.set(xlabel="maxmemory, MiB", ylabel="miss ratio", ylim=(0, 1))
        axis.legend(fontsize="small")

    return _picture(draw)


def _picture(draw: Callable[[Any], None]) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    inked = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    style: Any = {  # its keys are those of matplotlib's own table
        **dict.fromkeys(inked, _INK),
        **dict.fromkeys(("axes.edgecolor", "legend.edgecolor", "grid.color"), _FRAME),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "svg.fonttype": "none",
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH_INCHES, 2.8), layout="constrained")
        draw(figure.subplots())
        made = io.StringIO()
        figure.savefig(made, format="svg", metadata={"Date": None})
    text = made.getvalue()[made.getvalue().index("<svg") :]
    for number, colour in _OF_PAGE.items():
        text = text.replace(number, colour)
    return text


@dataclass(frozen=True)
class Report:
    """Holds what the page shows.

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
    """Tell decisions in whole sentences; plans in a row that keep all sizes become one item."""
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
