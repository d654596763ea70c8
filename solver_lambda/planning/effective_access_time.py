"""Effective access time (EAT) of a server as a function of its memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray, MissRatioCurve
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.access_cost import AccessCost


@dataclass(frozen=True, eq=False)
class EffectiveAccessTime:
    """One server's mean access time at any size.

    Attributes:
        curve: miss ratio over ``maxmemory``.
        cost: of a hit and of a miss.
    """

    curve: MissRatioCurve
    cost: AccessCost

    @classmethod
    def of(cls, server: ServerObservation) -> EffectiveAccessTime:
        """Return the EAT of an observed server."""
        return cls(server.curve, AccessCost.of(server))

    def seconds(self, size_bytes: npt.ArrayLike) -> FloatArray:
        """EAT = h·cd + (1 − h)·bd at each size in bytes: thesis, equation (8.2)."""
        return self.at_miss_ratios(self.curve.miss_ratio(size_bytes))

    def at_miss_ratios(self, miss_ratios: FloatArray) -> FloatArray:
        """The same, where the miss ratios at the sizes are known."""
        return self.cost.mean_seconds(miss_ratios)
