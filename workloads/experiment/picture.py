"""Figures of several repetitions, as median and spread, and a study's picture as a file.

The same figures give the same bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.experiment.study import Data, Study, StudyError

if TYPE_CHECKING:
    from matplotlib.axis import Axis


# Low end, middle and high end of some values.
Ends = Callable[[Sequence[float]], tuple[float, float, float]]


def least_and_greatest(values: Sequence[float]) -> tuple[float, float, float]:
    """The least, the median and the greatest."""
    return min(values), statistics.median(values), max(values)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third; of one value, three times that."""
    if len(values) < 2:
        return (values[0],) * 3
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, statistics.median(values), third


def spread(values: Sequence[float], told: Callable[[float], str]) -> str:
    """Return the median, then the least and the greatest: ``1.2 ms (1.0 ms to 1.5 ms)``."""
    middle = told(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({told(min(values))} to {told(max(values))})"


def plain_ticks(axis: Axis) -> None:
    """Set the ticks of an axis of a few decades; it has to be logarithmic already."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def check_matplotlib() -> None:
    """Check that it can draw, before minutes have passed.

    Raises:
        StudyError: it is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise StudyError(
            "a picture needs the Python package 'matplotlib' (pip install '.[workloads]')"
        ) from error


def draw(study: Study, data: Data, path: Path) -> None:
    """Draw in the format that the ending of ``path`` names.

    Raises:
        OSError: the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Names of parts are drawn at random otherwise, and the time of drawing is written.
    with mpl.rc_context({"svg.hashsalt": study.name, "svg.fonttype": "none", "font.size": 9.0}):
        figure = Figure(figsize=study.size_inches, layout="constrained")
        study.draw(figure, data)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=120, metadata=metadata)


def reach(
    series: Iterable[Sequence[float]], factor: float = 1.0, ends: Ends = least_and_greatest
) -> tuple[list[float], list[list[float]]]:
    """Medians, and how far the ends are below and above them, as error bars take them."""
    spans = [[factor * value for value in ends(values)] for values in series]
    middles = [middle for _, middle, _ in spans]
    below = [middle - low for low, middle, _ in spans]
    return middles, [below, [high - middle for _, middle, high in spans]]
