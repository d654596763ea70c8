"""Latency distributions of Redis alone, sampled, and under MONITOR: the thesis' Figure 8.4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from workloads.bench.sampling.costs import Measured
from workloads.bench.sampling.slices import PERCENTILES
from workloads.bench.sampling.states import MODULE, MONITOR, OFF, PATCH, STOCK

# From the top; sampling is drawn as in use, and of every key.
_DRAWN = [
    STOCK,
    OFF,
    *(s for s in (*PATCH, *MODULE) if s.name.endswith(("R=0.01", "R=1"))),
    MONITOR,
]
_COLOURS = {"stock": "tab:gray", "patch": "tab:blue", "module": "tab:green", "MONITOR": "tab:red"}


def draw(measured: Sequence[Measured], path: Path) -> None:
    """A panel for each kind: box from 25 % to 75 % with the median, whiskers from 1 % to 99 %,
    a dot at 99.9 %; each the median over the slices."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    kinds = sorted({one.kind for one in measured})
    figure, panels = plt.subplots(
        (len(kinds) + 1) // 2, 2, figsize=(13, 3.6 * ((len(kinds) + 1) // 2)), squeeze=False
    )
    names = ("whislo", "q1", "med", "q3", "whishi", "fliers")
    places = [PERCENTILES.index(p) for p in (1.0, 25.0, 50.0, 75.0, 99.0, 99.9)]
    for panel, kind in zip(panels.flat, kinds, strict=False):
        boxes = []
        for state in _DRAWN:
            slices = [m.slice for m in measured if (m.kind, m.state) == (kind, state)]
            shown = np.median([s.latency_seconds for s in slices], axis=0)[places] * 1e3
            boxes.append({"label": state.name, **dict(zip(names, shown, strict=True))})
            boxes[-1]["fliers"] = [boxes[-1]["fliers"]]
        drawn = panel.bxp(
            boxes, orientation="horizontal", patch_artist=True, widths=0.6,
            medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 7},
        )  # fmt: skip
        for state, box in zip(_DRAWN, drawn["boxes"], strict=True):
            box.set_facecolor(_COLOURS[state.name.split()[0]])
        panel.axvline(boxes[0]["med"], color="tab:gray", linewidth=0.8, linestyle=":")
        panel.invert_yaxis()
        panel.set(title=str(kind), xscale="log", xlabel="latency, ms")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
        panel.grid(axis="x", alpha=0.3)
    figure.suptitle("box 25–75 %, bar at the median, whiskers 1–99 %, dot 99.9 %; dotted: stock")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
