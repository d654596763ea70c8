"""The thesis' Figure 8.6, cost against cycles a day: its own bill, and ours."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from infra.costs.measured import Measured
from infra.costs.model import compare
from infra.costs.price_list import PriceList
from infra.costs.thesis import ALWAYS_ON_USD, thesis_usd
from infra.costs.workload import Workload
from infra.stack_file.limits import MOST_CYCLES_PER_DAY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CyclesADay = npt.NDArray[np.int64]
Dollars = npt.NDArray[np.float64]

# Free choices, told apart in print and by people who see few colours.
_STYLES = {
    "lambda": ("tab:blue", "Lambda"),
    "fargate": ("tab:orange", "Fargate"),
    "service": ("tab:brown", "always-on Fargate service"),
    "instance": ("tab:gray", "always-on instance"),
    "http": ("tab:green", "asked over HTTP"),
    "embedded": ("tab:purple", "in the sidecar: $0"),
}
# Without and with the free tier.
_LINES = {False: "-", True: "--"}
# Below it the axis is straight, so that what costs nothing has a place.
_STRAIGHT_BELOW_USD = 0.05


def draw(path: Path, workload: Workload, measured: Measured, prices: PriceList) -> None:
    """Write the figure in the format that the file's ending names.

    Raises:
        ValueError: an ending that matplotlib does not know.
        OSError: the file cannot be written.
    """
    make(workload, measured, prices).savefig(path, dpi=150)


def make(workload: Workload, measured: Measured, prices: PriceList) -> Figure:
    """The figure, not yet written."""
    from matplotlib.figure import Figure

    cycles = np.unique(np.round(np.geomspace(1, MOST_CYCLES_PER_DAY, 160))).astype(np.int64)
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    figure.suptitle(
        f"A year of SPREDS; on the right at AWS' prices of {prices.date}, {prices.region}"
    )
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_thesis(left, cycles)
    _draw_measured(right, cycles, workload, measured, prices)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=_STRAIGHT_BELOW_USD)
        axes.set_ylim(bottom=-_STRAIGHT_BELOW_USD / 5)
        axes.set_xlabel("cycles a day")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(fontsize="x-small")
    left.set_ylabel("USD a year")
    return figure


def crossings(cycles: CyclesADay, one: Dollars, other: Dollars) -> list[tuple[float, float]]:
    """Find where two lines cross: cycles a day and dollars, straight between the points."""
    ahead = one - other
    found = []
    for i in np.flatnonzero(np.sign(ahead[:-1]) * np.sign(ahead[1:]) < 0):
        share = ahead[i] / (ahead[i] - ahead[i + 1])
        at = cycles[i] + share * (cycles[i + 1] - cycles[i])
        found.append((float(at), float(one[i] + share * (one[i + 1] - one[i]))))
    return found


def _mark(axes: Axes, at: tuple[float, float], free_tier: bool) -> None:
    """Above the lines without the free tier, below them with it: the two are often close."""
    axes.plot(*at, "ko", markersize=4)
    axes.annotate(
        f"{math.ceil(at[0]):,} a day",
        at,
        xytext=(6, -14) if free_tier else (-6, 6),
        textcoords="offset points",
        ha="left" if free_tier else "right",
        fontsize="small",
    )


def _draw_thesis(axes: Axes, cycles: CyclesADay) -> None:
    axes.set_title("The thesis' inputs (60 s with 1 GB a cycle)", fontsize="medium")
    always_on = np.full(len(cycles), ALWAYS_ON_USD)
    for free_tier, line in _LINES.items():
        label = f"Lambda, {'with' if free_tier else 'without'} free tier"
        usd = np.array([thesis_usd(int(c), free_tier) for c in cycles])
        axes.plot(cycles, usd, "tab:blue", ls=line, label=label)
        for at in crossings(cycles, usd, always_on):
            _mark(axes, at, free_tier)
    axes.plot(cycles, always_on, "tab:gray", label="always-on machine")


def _draw_measured(
    axes: Axes, cycles: CyclesADay, workload: Workload, measured: Measured, prices: PriceList
) -> None:
    axes.set_title(
        f"Our function, measured ({workload.servers} servers, {workload.nodes} "
        f"node{'s' if workload.nodes > 1 else ''}, alarms included)",
        fontsize="medium",
    )
    bills = [
        compare(
            dataclasses.replace(workload, cycles_per_day=int(c)),
            measured,
            prices,
            controllers=_STYLES,
        )
        for c in cycles
    ]
    for free_tier, line in _LINES.items():
        lines = {
            controller: np.array([bill[place].usd(free_tier) for bill in bills])
            for place, controller in enumerate(_STYLES)
        }
        for controller, (color, name) in _STYLES.items():
            for at in crossings(cycles, lines["lambda"], lines[controller]):
                _mark(axes, at, free_tier)
            if free_tier and controller in ("http", "embedded"):
                continue  # which has nothing for them
            label = name if not free_tier else f"{name}, free tier"
            axes.plot(cycles, lines[controller], color, ls=line, label=label)
