"""What each division gains over equal shares, by mix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workloads.experiment.gain.report import Result
from workloads.experiment.gain.score import Score

RIVALS = {"static oracle": "k|", "climber": "C1s", "oracle of each window": "C2^"}
LOWER, HIGHER = "SPREDS, the lower rate", "SPREDS"
SPREDS = {LOWER: "C3o", HIGHER: "C0o"}


def draw(results: Sequence[Result], path: Path) -> None:
    """A line for each mix, in the format that the file's ending names; SPREDS has a dot for each
    salt.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.5 + 0.35 * len(results)), layout="constrained")
    panel = figure.subplots()
    for label, marker in (RIVALS | SPREDS).items():
        points = [
            (100 * one.gain_ratio, row)
            for row, result in enumerate(results)
            for one in result.scores
            if _label(one, result) == label
        ]
        if points:
            panel.plot(*zip(*points, strict=True), marker, alpha=0.7, label=label)
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set_xlabel("access time saved, % of that with equal shares")
    panel.set_yticks(range(len(results)), [result.mix for result in results])
    panel.invert_yaxis()
    panel.grid(alpha=0.3)
    panel.legend(fontsize="x-small")
    figure.savefig(path, dpi=120)


def _label(one: Score, result: Result) -> str:
    if one.rate is None:
        return one.division
    return LOWER if one.rate < max(other.rate or 0.0 for other in result.scores) else HIGHER
