"""What is printed: the divisions of each mix, its targets, and a summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.experiment.gain.score import Score, Verdict
from workloads.experiment.gain.simulated_server import OVERHEAD_BYTES
from workloads.table import mebibytes, milliseconds, percent, text_table

_NAMES = {
    "share": "share",
    "late_share": "late share",
    "gain_ratio": "gain over equal",
    "loss_ratio": "loss to equal",
    "worst_cycle_ratio": "worst cycle",
    "moves": "moves",
}
_MORE_IS_BETTER = ("share", "late_share", "gain_ratio")
RIVALS = {"static oracle": "k|", "climber": "C1s", "oracle of each window": "C2^"}
MARKERS = {**RIVALS, "SPREDS": "C0o"}


@dataclass(frozen=True)
class Result:
    """Holds the result of one mix."""

    mix: str
    description: str
    changes: bool
    scores: list[Score]
    verdicts: list[Verdict]

    @property
    def is_met(self) -> bool:
        """Whether all targets are met."""
        return not any(one.missed_by for one in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        return {
            "mix": self.mix,
            "description": self.description,
            "changes": self.changes,
            "scores": [one.to_json() for one in self.scores],
            "verdicts": [one.to_json() for one in self.verdicts],
        }


def told(result: Result) -> str:
    """A table of the divisions, and a line for the targets."""
    rows = [
        [
            one.division,
            milliseconds(one.access_seconds),
            _share(one.share),
            _share(one.late_share),
            _signed(one.loss_ratio),
            _signed(one.worst_cycle_ratio),
            str(one.moves),
            str(one.changes),
            mebibytes(one.moved_bytes),
            percent(one.lost_ratio),
            f"{one.misses_per_second:,.1f}",
            "-" if one.worth_ratio is None else f"{one.worth_ratio:.2f}",
        ]
        for one in result.scores
    ]
    header = ["division", "access", "share", "late", "to equal", "worst", "moves", "sets", "moved"]
    header += ["lost hits", "misses/s", "worth"]
    lines = [
        "\n" + ": ".join(filter(None, (result.mix, result.description))),
        text_table(header, rows),
    ]
    missed = [_missed(one) for one in result.verdicts if one.missed_by]
    lines.append("; ".join(missed) or "all targets are met")
    return "\n".join(lines)


def by_cycle(result: Result) -> str:
    """The mean access time of each cycle, in milliseconds; a column for each division."""
    header = ["cycle, ms", *(one.division for one in result.scores)]
    rows = [
        [str(cycle), *(f"{1e3 * seconds:.3f}" for seconds in all_seconds)]
        for cycle, all_seconds in enumerate(
            zip(*(one.cycles_seconds for one in result.scores), strict=True), 1
        )
    ]
    return text_table(header, rows)


def summary(results: Sequence[Result]) -> str:
    """Sum up each mix by its worst salt, with the targets that are missed."""
    rows = []
    for result in results:
        mine = [one for one in result.scores if one.salt]
        missed = [
            f"{_NAMES[one.target]} by {_amount(one)}" for one in result.verdicts if one.missed_by
        ]
        rows.append(
            [
                result.mix,
                _share(min((one.share for one in mine), key=_or_most)),
                _share(min((one.late_share for one in mine), key=_or_most)),
                _signed(max(one.loss_ratio for one in mine)),
                _signed(max(one.worst_cycle_ratio for one in mine)),
                str(max(one.moves for one in mine)),
                _mean([one.within_ratio for one in mine]),
                _mean([one.within_twice_ratio for one in mine]),
                "; ".join(missed) or "met",
            ]
        )
    header = ["SPREDS, worst salt", "share", "late", "to equal", "worst", "moves"]
    header += ["error", "twice", "missed"]
    met = sum(result.is_met for result in results)
    return (
        f"\n{text_table(header, rows)}\n{met} of {len(results)} mixes meet all targets\n"
        f"{OVERHEAD_BYTES} bytes are beside each object here, in Redis up to some 290, or of one "
        "of some KiB up to three tenths of it: near the size where all fits, real-gain is nearer "
        "to what servers do"
    )


def _missed(one: Verdict) -> str:
    value, bound = (
        (f"{number:.0f}" if one.target == "moves" else f"{100 * number:.2f} %")
        for number in (one.reached, one.bound)
    )
    least = "at least" if one.target in _MORE_IS_BETTER else "at most"
    return f"MISSED: {_NAMES[one.target]} {value} with salt {one.salt}, to be {least} {bound}"


def _amount(one: Verdict) -> str:
    return f"{one.missed_by:.0f}" if one.target == "moves" else f"{100 * one.missed_by:.2f} %"


def _or_most(share: float | None) -> float:
    return math.inf if share is None else share


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _mean(ratios: Sequence[float | None]) -> str:
    known = [ratio for ratio in ratios if ratio is not None]
    return f"{100 * sum(known) / len(known):.0f} %" if known else "-"


def _signed(ratio: float) -> str:
    return f"{100 * ratio:+.1f} %"


def draw(results: Sequence[Result], path: Path) -> None:
    """A line for each mix, in the format that the file's ending names; SPREDS has a dot for each
    salt.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.5 + 0.35 * len(results)), layout="constrained")
    panel = figure.subplots()
    for label, marker in MARKERS.items():
        points = [
            (100 * one.gain_ratio, row)
            for row, result in enumerate(results)
            for one in result.scores
            if one.division == label or (one.salt and label == "SPREDS")
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
