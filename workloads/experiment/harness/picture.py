"""A study's picture as a file: the same figures give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.experiment.harness.spread import least_and_greatest
from workloads.experiment.harness.study import Data, Study, StudyError

if TYPE_CHECKING:
    from matplotlib.axis import Axis


# Low end, middle and high end of some values.
Ends = Callable[[Sequence[float]], tuple[float, float, float]]


def plain_ticks(axis: Axis) -> None:
    """For an axis of a few decades; it has to be logarithmic already."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def check_matplotlib() -> None:
    """Before minutes have passed.

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
    """In the format that the ending of ``path`` names.

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
