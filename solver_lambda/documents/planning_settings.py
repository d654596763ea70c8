"""Says how plans are to be made: a part of the observation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from solver_lambda.documents.reader import Fields

# The function is ended after 60 s, in which it also starts, reads and writes.
MOST_TIME_SECONDS = 45
METHODS = ("auto", "dirichlet", "hill_climbing")


@dataclass(frozen=True)
class PlanningSettings:
    """Says how the node's operator wants plans to be made.

    Attributes:
        method: ``auto`` is the thesis' rule: Dirichlet search up to 7 servers, hill climbing above.
        certify: prove the gap to the optimum, and close it to ``epsilon_ratio`` if time allows.
        epsilon_ratio: accepted optimality gap, relative to the optimum.
        time_limit_seconds: for search and certificate together, ``MOST_TIME_SECONDS`` at most.
        horizon_seconds: how long a plan is expected to last; a move must pay for itself in it.
        minimum_gain_ratio: relative gain in weighted mean access time below which nothing moves.
            Where a rule shortens a cycle's step, it counts for the whole way.
        dwell_seconds: a server that was changed keeps its size for so long.
        maximum_step_ratio: the most that a server may gain or lose in one cycle, of its size; one
            unit at least.
        maximum_curve_error_ratio: a server whose curve's expected error is above does not shrink.
        seed: of the random search, so that one observation gives one plan.
    """

    method: str = "auto"
    certify: bool = True
    epsilon_ratio: float = 1e-4
    time_limit_seconds: float = 2.0
    horizon_seconds: float = 3600.0
    minimum_gain_ratio: float = 0.002
    dwell_seconds: float = 0.0
    maximum_step_ratio: float | None = None
    maximum_curve_error_ratio: float = 0.3
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, fields: Fields) -> PlanningSettings:
        """Read the settings. Raises DocumentError."""
        step_ratio = fields.optional_number("maximum_step_ratio", above=0)
        # What earlier sidecars call it.
        old_step_ratio = fields.optional_number("max_step_ratio", above=0)
        settings = cls(
            method=fields.text("method", cls.method, METHODS),
            certify=fields.boolean("certify", cls.certify),
            epsilon_ratio=fields.number("epsilon_ratio", cls.epsilon_ratio, low=0, high=1),
            time_limit_seconds=fields.number(
                "time_limit_seconds", cls.time_limit_seconds, above=0, high=MOST_TIME_SECONDS
            ),
            horizon_seconds=fields.number("horizon_seconds", cls.horizon_seconds, above=0),
            minimum_gain_ratio=fields.number(
                "minimum_gain_ratio", cls.minimum_gain_ratio, low=0, high=1
            ),
            dwell_seconds=fields.number("dwell_seconds", cls.dwell_seconds, low=0),
            maximum_step_ratio=old_step_ratio if step_ratio is None else step_ratio,
            maximum_curve_error_ratio=fields.number(
                "maximum_curve_error_ratio", cls.maximum_curve_error_ratio, low=0, high=1
            ),
            seed=fields.integer("seed", cls.seed, low=0),
        )
        fields.done()
        return settings
