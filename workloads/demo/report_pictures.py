"""The pictures of ``report.html``: sizes and hit ratios over time, and the curves.

They are SVG with text as text, and take their colours from the page, which has them light and dark.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from solver_lambda.documents.observation import Observation
from workloads.demo.half import HalfResult, mean_access_time_seconds
from workloads.demo.scenario import DemoServer

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
    """``maxmemory`` of each server over time."""

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
    """Seconds, and milliseconds in the ``_WINDOW_SAMPLES`` before them."""
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
    """Each server's curve, with a circle at its static share and a dot at what SPREDS gave."""

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
