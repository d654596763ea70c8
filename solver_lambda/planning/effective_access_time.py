"""Computes the effective access time (EAT) of a server as a function of its memory.

What a hit and a miss of one server cost: all that counts gains and losses asks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray, MissRatioCurve
from solver_lambda.documents.observation import ServerObservation

Numbers = TypeVar("Numbers", float, FloatArray)


@dataclass(frozen=True)
class AccessCost:
    """Holds the cost of a read in seconds: cd of a hit and bd of a miss (thesis, equation 8.2)."""

    hit_seconds: float
    miss_seconds: float

    @classmethod
    def of(cls, server: ServerObservation) -> AccessCost:
        """Return the cost of an observed server."""
        return cls.by(server.cache_latency_seconds, server.backend_latency_seconds)

    @classmethod
    def by(cls, cache_latency_seconds: float, backend_latency_seconds: float) -> AccessCost:
        """Return the cost by a server's latencies.

        bd includes the time to process a miss (thesis, Table 8.3). So one below cd is a mistake of
        whoever set or measured it: taken as it is, memory would make the server slower.
        """
        return cls(cache_latency_seconds, max(cache_latency_seconds, backend_latency_seconds))

    @property
    def penalty_seconds(self) -> float:
        """Return what a miss costs more than a hit."""
        return self.miss_seconds - self.hit_seconds

    def mean_seconds(self, miss_ratios: Numbers) -> Numbers:
        """Return the mean cost of a read, h·cd + (1 − h)·bd, at each miss ratio."""
        return (1.0 - miss_ratios) * self.hit_seconds + miss_ratios * self.miss_seconds

    def total_seconds(self, reads: float, misses: float) -> float:
        """Return the cost of so many reads, of which so many missed."""
        return reads * self.hit_seconds + misses * self.penalty_seconds


@dataclass(frozen=True, eq=False)
class EffectiveAccessTime:
    """Computes one server's mean access time at any size.

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
        """Return EAT = h·cd + (1 − h)·bd at each size in bytes: thesis, equation (8.2)."""
        return self.at_miss_ratios(self.curve.miss_ratio(size_bytes))

    def at_miss_ratios(self, miss_ratios: FloatArray) -> FloatArray:
        """Return the same, where the miss ratios at the sizes are known."""
        return self.cost.mean_seconds(miss_ratios)
