"""The thesis' Figure 8.6, cost against cycles a day: its own bill, and ours."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from infra.costs.measured import Measured
from infra.costs.model import compare
from infra.costs.price_list import PriceList
from infra.costs.thesis import ALWAYS_ON_USD, thesis_break_even, thesis_usd
from infra.costs.workload import MOST_CYCLES_PER_DAY, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CyclesADay = npt.NDArray[np.int64]

# Free choices, told apart in print and by people who see few colours.
_STYLES = {
    "lambda": ("tab:blue", "Lambda"),
    "fargate": ("tab:orange", "Fargate"),
    "instance": ("tab:gray", "always-on instance"),
}
# Without and with the free tier.
_LINES = {False: "-", True: "--"}


def draw(path: Path, workload: Workload, measured: Measured, prices: PriceList) -> None:
    """Write the figure in the format that the file's ending names.

    Raises:
        ValueError: an ending that matplotlib does not know.
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    cycles = np.unique(np.round(np.geomspace(1, MOST_CYCLES_PER_DAY, 160))).astype(np.int64)
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_thesis(left, cycles)
    _draw_measured(right, cycles, workload, measured, prices)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("cycles a day")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(fontsize="small")
    left.set_ylabel("USD a year")
    figure.savefig(path, dpi=150)


def _draw_thesis(axes: Axes, cycles: CyclesADay) -> None:
    axes.set_title("The thesis' inputs (60 s with 1 GB a cycle)")
    for free_tier, line in _LINES.items():
        label = f"Lambda, {'with' if free_tier else 'without'} free tier"
        axes.plot(
            cycles, [thesis_usd(c, free_tier) for c in cycles], "tab:blue", ls=line, label=label
        )
    axes.axhline(ALWAYS_ON_USD, color="tab:gray", label="always-on machine")
    crossing = thesis_break_even()
    if crossing:
        axes.plot([crossing], [ALWAYS_ON_USD], "ko")
        axes.annotate(
            f"{crossing} a day",
            (crossing, ALWAYS_ON_USD),
            xytext=(-8, 8),
            textcoords="offset points",
            ha="right",
        )


def _draw_measured(
    axes: Axes, cycles: CyclesADay, workload: Workload, measured: Measured, prices: PriceList
) -> None:
    axes.set_title(
        f"Our function, measured ({workload.servers} servers, {workload.nodes} "
        f"node{'s' if workload.nodes > 1 else ''}, alarms included)"
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
    for place, (color, name) in enumerate(_STYLES.values()):
        for free_tier, line in _LINES.items():
            axes.plot(
                cycles,
                [bill[place].usd(free_tier) for bill in bills],
                color,
                ls=line,
                label=name if not free_tier else f"{name}, free tier",
            )
