"""``report.html`` of the demonstration: one file, with its pictures in it."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solver_lambda.documents.observation import Observation
from workloads.demo.half import HalfResult
from workloads.demo.kept import kept_in_words

MEBIBYTE = 1 << 20
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # told apart by everyone


@dataclass(frozen=True)
class Report:
    """What the page shows.

    Attributes:
        result: the contents of ``result.json``.
        header, rows: of the table.
        observation: whose curves are drawn, or ``None``.
        log: the last lines of the sidecar's decisions.
    """

    result: dict[str, Any]
    header: list[str]
    rows: list[list[str]]
    static: HalfResult
    spreds: HalfResult
    observation: Observation | None
    log: str


def write_report(report: Report, path: Path) -> None:
    """Write the page."""
    times = report.result["mean_access_time_ms"]
    late = report.result["late_mean_access_time_ms"]
    gain = 1 - times["spreds"] / times["static"]
    loads = "".join(
        f"<li><b>{html.escape(server['name'])}</b>: {html.escape(server['load'])}; weight "
        f"{server['weight']:g}, backend {server['backend_latency_ms']:g} ms, "
        f"{server['rate_per_second']:,.0f} requests a second</li>"
        for server in report.result["servers"]
    )
    path.write_text(
        f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>SPREDS: static split against SPREDS</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #ccc }}
th:first-child, td:first-child {{ text-align: left }}
svg {{ max-width: 100%; height: auto }}
pre {{ overflow-x: auto; font-size: .8rem; background: #f4f4f4; padding: 1rem }}
</style>
<h1>Static split against SPREDS</h1>
<p>Weighted mean access time: <b>{times["static"]:.2f} ms</b> with equal shares,
<b>{times["spreds"]:.2f} ms</b> with SPREDS (<b>{-gain:+.1%}</b>), over the whole load, the time
that SPREDS needed to learn included. In the second half of the load:
{late["static"]:.2f} and {late["spreds"]:.2f} ms. {kept_in_words(report.result["kept_gain"])}.</p>
<p>Budget {report.result["budget_bytes"] / MEBIBYTE:.0f} MiB; the sum of <code>maxmemory</code>
was never above {report.result["max_total_maxmemory_bytes"] / MEBIBYTE:.2f} MiB;
{report.result["cycles"]} cycles; seed {report.result["seed"]}.</p>
{_html_table(report.header, report.rows)}
<ul>{loads}</ul>
<h2>Sizes and hit ratios over time</h2>
{_sizes_picture(report)}
<h2>Miss-ratio curves</h2>
<p>As the last answered observation had them. A circle marks the static share, a dot what SPREDS
gave.</p>
{_curves_picture(report)}
<h2>What the sidecar decided</h2>
<pre>{html.escape(report.log)}</pre>
</html>
"""
    )


def _html_table(header: list[str], rows: list[list[str]]) -> str:
    def line(tag: str, cells: list[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line('th', header)}{''.join(line('td', row) for row in rows)}</table>"


def _figure(rows: int, columns: int, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex="col", sharey="row")


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _sizes_picture(report: Report) -> str:
    figure, axes = _figure(2, 2, 6)
    halves = (("static", report.static), ("SPREDS", report.spreds))
    for column, (name, half) in enumerate(halves):
        seconds = [sample.seconds for sample in half.samples]
        sizes, ratios = axes[0][column], axes[1][column]
        for server, colour in zip(half.maxmemory_bytes, COLOURS, strict=False):
            sizes.step(
                seconds,
                [sample.maxmemory_bytes[server] / MEBIBYTE for sample in half.samples],
                where="post",
                color=colour,
                label=server,
            )
            ratios.plot(
                seconds, [sample.hit_ratio[server] for sample in half.samples], color=colour
            )
        sizes.set_title(name)
        ratios.set_xlabel("seconds")
        ratios.set_ylim(0, 1)
    axes[0][0].set_ylabel("maxmemory, MiB")
    axes[0][0].set_ylim(bottom=0)
    axes[0][0].legend()
    axes[1][0].set_ylabel("hit ratio")
    return _svg(figure)


def _curves_picture(report: Report) -> str:
    if report.observation is None:
        return "<p>No observation was answered.</p>"
    figure, axes = _figure(1, 1, 4)
    axis = axes[0][0]
    for server, colour in zip(report.observation.servers, COLOURS, strict=False):
        limit = report.result["budget_bytes"]
        inside = server.curve.sizes_bytes <= limit
        sizes = server.curve.sizes_bytes[inside] / MEBIBYTE
        axis.plot(sizes, server.curve.miss_ratios[inside], color=colour, label=server.name)
        for half, fill in ((report.static, "none"), (report.spreds, colour)):
            size_bytes = half.maxmemory_bytes[server.name]
            axis.plot(
                size_bytes / MEBIBYTE,
                server.curve.miss_ratio(size_bytes),
                "o",
                color=colour,
                markerfacecolor=fill,
            )
    axis.set_xlabel("maxmemory, MiB")
    axis.set_ylabel("miss ratio")
    axis.set_ylim(0, 1)
    axis.legend()
    return _svg(figure)
