"""Draws the picture of ``spreds mrc --plot``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from sidecar.mrc.trace_curve import TraceCurve
from sidecar.traces.file import TraceError

_STEPS = 500  # more than a picture has pixels for would only make the file large
_BAND_STANDARD_ERRORS = 2.0


def draw(file: str, curves: Sequence[tuple[str, TraceCurve]], *, in_bytes: bool) -> None:
    """Draw curves, each with its trace's name, over sizes in even ratios, and a band around those
    that are sampled: twice the standard error to each side.

    Raises:
        TraceError: it cannot be drawn or written.
    """
    try:
        # Its settings may hold code. It takes them from the working folder, which may be anybody's.
        with chdir("/"):
            from matplotlib.figure import Figure
    except ImportError as error:
        raise TraceError(
            "--plot needs the Python package 'matplotlib' (pip install matplotlib, or spreds with "
            "its extra 'mrc')"
        ) from error
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    for trace, curve in curves:
        sizes = even_ratios(curve)
        ratios = curve.miss_ratios_at(sizes)
        (line,) = axis.step(sizes, ratios, where="post", label=Path(trace).name)
        errors = [_BAND_STANDARD_ERRORS * error for error in curve.standard_errors_at(sizes)]
        if any(errors):
            axis.fill_between(
                sizes,
                [max(0.0, ratio - error) for ratio, error in zip(ratios, errors, strict=True)],
                [min(1.0, ratio + error) for ratio, error in zip(ratios, errors, strict=True)],
                step="post",
                color=line.get_color(),
                alpha=0.2,
                linewidth=0,
            )
    axis.set_xlabel("cache size, bytes" if in_bytes else "cache size, objects")
    axis.set_ylabel("miss ratio")
    axis.set_ylim(0, 1)
    axis.set_xscale("log")
    axis.legend()
    try:
        figure.savefig(file)
    except OSError as error:
        raise TraceError(f"--plot {file}: cannot be written: {error.strerror}") from error
    except ValueError as error:
        raise TraceError(f"--plot {file}: {error}") from error


def even_ratios(curve: TraceCurve) -> list[int]:
    """Return sizes from where the curve begins to where it is flat."""
    first, last = (curve.sizes[0], curve.sizes[-1]) if curve.sizes else (1, 1)
    step = (last / first) ** (1 / _STEPS)
    return sorted({first, last, *(round(first * step**place) for place in range(1, _STEPS))})
