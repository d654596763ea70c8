"""Effective access time (EAT) and utility of a server as a function of its memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from solver_lambda.curve import FloatArray, MissRatioCurve
from solver_lambda.observation import ServerObservation


@dataclass(frozen=True, eq=False)
class EffectiveAccessTime:
    """One server's mean access time at any size.

    Attributes:
        curve: miss ratio over ``maxmemory``.
        request_rate_per_second: f.
        cache_latency_seconds, backend_latency_seconds: cd and bd.
    """

    curve: MissRatioCurve
    request_rate_per_second: float
    cache_latency_seconds: float
    backend_latency_seconds: float

    @classmethod
    def of(cls, server: ServerObservation) -> EffectiveAccessTime:
        """The EAT of an observed server."""
        return cls(
            server.curve,
            server.request_rate_per_second,
            server.cache_latency_seconds,
            server.backend_latency_seconds,
        )

    def seconds(self, size_bytes: npt.ArrayLike) -> FloatArray:
        """EAT = h·cd + (1 − h)·bd at each size in bytes: thesis, equation (8.2)."""
        miss_ratio = self.curve.miss_ratio(size_bytes)
        return (
            1.0 - miss_ratio
        ) * self.cache_latency_seconds + miss_ratio * self.backend_latency_seconds

    def utility(self, size_bytes: npt.ArrayLike) -> FloatArray:
        """U = −f·EAT at each size in bytes, a rate without unit: thesis, equation (8.1).

        The thesis' text speaks of weighing by the inverse of f; its equation and table multiply.
        """
        return -self.request_rate_per_second * self.seconds(size_bytes)
