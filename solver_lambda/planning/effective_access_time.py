"""Effective access time (EAT) of a server as a function of its memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray, MissRatioCurve
from solver_lambda.documents.observation import ServerObservation


@dataclass(frozen=True, eq=False)
class EffectiveAccessTime:
    """One server's mean access time at any size.

    Attributes:
        curve: miss ratio over ``maxmemory``.
        cache_latency_seconds, backend_latency_seconds: cd and bd.
    """

    curve: MissRatioCurve
    cache_latency_seconds: float
    backend_latency_seconds: float

    @classmethod
    def of(cls, server: ServerObservation) -> EffectiveAccessTime:
        """The EAT of an observed server.

        bd includes the time to process a miss (thesis, Table 8.3), so one below cd is a mistake of
        whoever set or measured it: taken as it is, memory would make the server slower.
        """
        return cls(
            server.curve,
            server.cache_latency_seconds,
            max(server.backend_latency_seconds, server.cache_latency_seconds),
        )

    def seconds(self, size_bytes: npt.ArrayLike) -> FloatArray:
        """EAT = h·cd + (1 − h)·bd at each size in bytes: thesis, equation (8.2)."""
        return self.at_miss_ratios(self.curve.miss_ratio(size_bytes))

    def at_miss_ratios(self, miss_ratios: FloatArray) -> FloatArray:
        """The same, where the miss ratios at the sizes are known."""
        return (
            1.0 - miss_ratios
        ) * self.cache_latency_seconds + miss_ratios * self.backend_latency_seconds
