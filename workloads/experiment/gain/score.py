"""What one division of memory came to: shares of the static oracle's gain, and what was lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workloads.experiment.gain.simulation import Outcome
from workloads.experiment.gain.stated_errors import StatedErrors

# The first cycles are for learning.
LATE_CYCLE = 6
# If the best fixed sizes gain less than this, a share of it says nothing.
LEAST_GAIN_RATIO = 0.02


@dataclass(frozen=True)
class Score:
    """One division, judged beside equal shares; access times are weighted means.

    Attributes:
        rate, salt: of SPREDS' samples; the salt in hexadecimal.
        share, late_share: of the gain that the best fixed sizes have over equal shares, in the
            whole run and from cycle ``LATE_CYCLE`` on; ``None`` where they gain less than
            ``LEAST_GAIN_RATIO``.
        loss_ratio: by how much the whole run is slower than with equal shares; negative: faster.
        worst_cycle_ratio: the same of the worst cycle after the first.
        moves: how often other sizes were decided on.
        changes: of servers' sizes: a move may take several.
        moved_bytes: that servers were given, in all.
        cycles_seconds: the mean access time of each cycle.
        within_ratio, within_twice_ratio: see ``StatedErrors``.
    """

    division: str
    rate: float | None
    salt: str
    access_seconds: float
    share: float | None
    late_share: float | None
    loss_ratio: float
    worst_cycle_ratio: float
    moves: int
    changes: int
    moved_bytes: int
    cycles_seconds: list[float]
    within_ratio: float | None = None
    within_twice_ratio: float | None = None

    @property
    def gain_ratio(self) -> float:
        """By how much the whole run is faster than with equal shares."""
        return -self.loss_ratio

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(
    division: str,
    outcome: Outcome,
    equal: Outcome,
    static: Outcome,
    rate: float | None = None,
    salt: str = "",
    errors: StatedErrors | None = None,
) -> Score:
    """Judge one division."""
    mine = outcome.cycles_seconds()
    ratios = list(map(_ratio, mine[1:], equal.cycles_seconds()[1:]))
    return Score(
        division,
        rate,
        salt,
        outcome.access_seconds(),
        _share(outcome, equal, static, 0),
        _share(outcome, equal, static, LATE_CYCLE - 1),
        _ratio(outcome.access_seconds(), equal.access_seconds()),
        float(np.max(ratios)),
        outcome.moves,
        outcome.changes,
        outcome.moved_bytes,
        mine,
        *(errors or ()),
    )


def _ratio(seconds: float, equal_seconds: float) -> float:
    return seconds / equal_seconds - 1 if equal_seconds else 0.0


def _share(outcome: Outcome, equal: Outcome, static: Outcome, first: int) -> float | None:
    before, best = equal.access_seconds(first), static.access_seconds(first)
    if before - best <= LEAST_GAIN_RATIO * before:
        return None
    return (before - outcome.access_seconds(first)) / (before - best)
