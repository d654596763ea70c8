"""What one division of memory came to: shares of the possible gain, losses, targets reached.

Other ways to divide the memory: by rules of thumb, and by hill climbing on the spot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workloads.experiment.gain.mix import Targets
from workloads.experiment.gain.oracle import StatedErrors
from workloads.experiment.gain.simulation import Outcome

# The first cycles are for learning.
LATE_CYCLE = 6
# If the best fixed sizes gain less than this, a share of it says nothing.
LEAST_GAIN_RATIO = 0.02
# What is less would be printed as 0.00 %.
LEAST_MISS = 0.00005


@dataclass(frozen=True)
class Score:
    """One division, judged beside equal shares; access times are weighted means.

    Attributes:
        salt: of SPREDS' samples, in hexadecimal; empty for all others.
        share, late_share: of the gain that the best fixed sizes have over equal shares, in the
            whole run and from cycle ``LATE_CYCLE`` on; ``None`` where they gain less than
            ``LEAST_GAIN_RATIO``.
        loss_ratio: by how much the whole run is slower than with equal shares; negative: faster.
        worst_cycle_ratio: the same of the worst cycle after the first.
        moves: how often other sizes were decided on.
        changes: of servers' sizes: a move may take several.
        moved_bytes: that servers were given, in all.
        cycles_seconds: the mean access time of each cycle.
        misses_per_second: of all servers, in the whole run.
        worth_ratio: so much memory, of the budget, equal shares would need to be as fast; ``None``:
            more than was tried.
        lost_ratio: the most that a server's hit ratio is below that with equal shares, in the whole
            run.
        within_ratio, within_twice_ratio: see ``StatedErrors``.
    """

    division: str
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
    lost_ratio: float
    misses_per_second: float
    worth_ratio: float | None
    within_ratio: float | None = None
    within_twice_ratio: float | None = None

    @property
    def gain_ratio(self) -> float:
        """Return by how much the whole run is faster than with equal shares."""
        return -self.loss_ratio

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(
    division: str,
    outcome: Outcome,
    equal: Outcome,
    static: Outcome,
    salt: str = "",
    errors: StatedErrors | None = None,
    equal_seconds: Mapping[float, float] | None = None,
) -> Score:
    """Judge one division. ``equal_seconds``: how fast equal shares of other budgets are, by their
    ratio to this one."""
    mine = outcome.cycles_seconds()
    ratios = list(map(_ratio, mine[1:], equal.cycles_seconds()[1:]))
    return Score(
        division,
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
        _lost_ratio(outcome, equal),
        float(outcome.misses.sum()) / (len(mine) * outcome.mix.cycle_seconds),
        _worth_ratio(outcome.access_seconds(), equal_seconds),
        *(errors or ()),
    )


def _worth_ratio(seconds: float, equal_seconds: Mapping[float, float] | None) -> float | None:
    ratios = np.array(sorted(equal_seconds or ()))
    if not len(ratios):
        return None
    assert equal_seconds is not None
    # What moved may be a little slower with more.
    speeds = np.minimum.accumulate([equal_seconds[float(ratio)] for ratio in ratios])
    if seconds < speeds[-1]:
        return None
    return float(np.interp(-seconds, -speeds, ratios))


def _lost_ratio(outcome: Outcome, equal: Outcome) -> float:
    reads = np.maximum(1, equal.reads.sum(axis=0))
    return float(np.max((outcome.misses - equal.misses).sum(axis=0) / reads, initial=0.0))


def _ratio(seconds: float, equal_seconds: float) -> float:
    return seconds / equal_seconds - 1 if equal_seconds else 0.0


def _share(outcome: Outcome, equal: Outcome, static: Outcome, first: int) -> float | None:
    before, best = equal.access_seconds(first), static.access_seconds(first)
    if before - best <= LEAST_GAIN_RATIO * before:
        return None
    return (before - outcome.access_seconds(first)) / (before - best)


@dataclass(frozen=True)
class Verdict:
    """Tells how far one target was reached.

    Attributes:
        target: an attribute of ``Score``.
        bound: of it; at least that where more is better.
        reached: by the worst salt.
        salt: that one's, in hexadecimal.
        missed_by: 0 if it is met.
    """

    target: str
    bound: float
    reached: float
    salt: str
    missed_by: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(targets: Targets, changes: bool, scores: Sequence[Score]) -> list[Verdict]:
    """Judge SPREDS' scores, by the worst salt.

    A stationary mix is judged by its shares. One that changes is to gain at least what the climber
    and the best fixed sizes gain. This also holds where these gain next to nothing.
    """
    rivals = [one.gain_ratio for one in scores if one.division in ("climber", "static oracle")]
    least: dict[str, float] = (
        {"gain_ratio": max(rivals)}
        if changes
        else {"share": targets.share, "late_share": targets.late_share}
    )
    most: dict[str, float] = {
        "loss_ratio": targets.loss_ratio,
        "worst_cycle_ratio": targets.worst_cycle_ratio,
    }
    if targets.moves is not None:
        most["moves"] = targets.moves
    verdicts = []
    for bounds, sign in ((least, -1), (most, 1)):
        for target, bound in bounds.items():
            reached = [(getattr(one, target), one.salt) for one in scores if one.salt]
            if any(value is None for value, _ in reached):
                continue  # the best fixed sizes gain next to nothing: there are no shares of it
            value, salt = max(reached, key=lambda pair: sign * pair[0])
            over = sign * (value - bound)
            missed_by = over if over >= LEAST_MISS else 0.0
            verdicts.append(Verdict(target, bound, value, salt, missed_by))
    return verdicts
