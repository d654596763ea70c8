"""What SPREDS is to reach on a mix."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from solver_lambda.documents.reader import Fields


@dataclass(frozen=True)
class Targets:
    """Bounds of what a ``Score`` has under the same names, for each salt.

    Attributes:
        share, late_share: at least; of stationary mixes.
        loss_ratio, worst_cycle_ratio: at most.
        moves: at most; ``None``: any number.
    """

    share: float = 0.90
    late_share: float = 0.97
    loss_ratio: float = 0.002
    worst_cycle_ratio: float = 0.10
    moves: int | None = None


def read_targets(table: Fields) -> Targets:
    """From a mix's file: what differs from the defaults. Raises DocumentError."""
    given: dict[str, Any] = {
        one.name: table.integer(one.name, low=0)
        if one.name == "moves"
        else table.number(one.name, low=-1)
        for one in fields(Targets)
        if table.has(one.name)
    }
    table.done()
    return Targets(**given)
