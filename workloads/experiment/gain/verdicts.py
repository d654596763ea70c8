"""Whether SPREDS reaches its targets on a mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workloads.experiment.gain.score import Score
from workloads.experiment.gain.targets import Targets

# Of shares, and of what rivals gain, at the lower of two rates.
EASED = 0.8
# What is less would be printed as 0.00 %.
LEAST_MISS = 0.00005


@dataclass(frozen=True)
class Verdict:
    """One target at one rate.

    Attributes:
        target: an attribute of ``Score``.
        bound: of it; at least that where more is better.
        reached: by the worst salt.
        salt: that one's, in hexadecimal.
        missed_by: 0 if it is met.
    """

    rate: float
    target: str
    bound: float
    reached: float
    salt: str
    missed_by: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(targets: Targets, changes: bool, scores: Sequence[Score]) -> list[Verdict]:
    """Of all rates that are among the scores, the lowest first.

    A stationary mix is judged by its shares. One that changes is to gain at least what the climber
    and the best fixed sizes gain, which also holds where these gain next to nothing.
    """
    rivals = [one.gain_ratio for one in scores if one.division in ("climber", "static oracle")]
    rates = sorted({one.rate for one in scores if one.rate is not None})
    verdicts = []
    for rate in rates:
        mine = [one for one in scores if one.rate == rate]
        eased = rate < rates[-1]
        factor = EASED if eased else 1.0
        least: dict[str, float] = (
            {"gain_ratio": factor * max(rivals)}
            if changes
            else {"share": factor * targets.share, "late_share": factor * targets.late_share}
        )
        most: dict[str, float] = {"loss_ratio": Targets.loss_ratio if eased else targets.loss_ratio}
        if not eased:
            most["worst_cycle_ratio"] = targets.worst_cycle_ratio
            if targets.moves is not None:
                most["moves"] = targets.moves
        for bounds, sign in ((least, -1), (most, 1)):
            for target, bound in bounds.items():
                reached = [(getattr(one, target), one.salt) for one in mine]
                if any(value is None for value, _ in reached):
                    continue  # the best fixed sizes gain next to nothing: there are no shares of it
                value, salt = max(reached, key=lambda pair: sign * pair[0])
                over = sign * (value - bound)
                missed_by = over if over >= LEAST_MISS else 0.0
                verdicts.append(Verdict(rate, target, bound, value, salt, missed_by))
    return verdicts
