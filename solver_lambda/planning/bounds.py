"""Defines what people want of a server at most, and its size decides: the second goal of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.documents.server_settings import BOUNDS
from solver_lambda.documents.words import time_words
from solver_lambda.planning.effective_access_time import EffectiveAccessTime


@dataclass(frozen=True, eq=False)
class Bound:
    """Allows at most ``most`` of something that never grows with a server's memory.

    Attributes:
        server: its name.
        code: names the bound, as the node's file does.
        amounts: what there is of it at sizes in bytes, of their shape.
        words: an amount, for people.
        never: why no size at all can meet it, ``None`` if one might.
    """

    server: str
    code: str
    most: float
    amounts: Callable[[npt.ArrayLike], FloatArray]
    words: Callable[[float], str]
    never: str | None = None

    def amount(self, size_bytes: float) -> float:
        """Return the amount at one size."""
        return float(self.amounts(size_bytes))

    def is_met(self, size_bytes: float) -> bool:
        """Whether one size meets it; without ``maxmemory`` (0) it counts as not met."""
        return size_bytes > 0 and self.amount(size_bytes) <= self.most


def bounds_of(server: ServerObservation) -> list[Bound]:
    """Return the bounds that are set for a server."""
    return [
        _MAKERS[name](server, BOUNDS[name].option, most) for name, most in server.bounds.items()
    ]


def _latency_bound(server: ServerObservation, code: str, most: float) -> Bound:
    """Bound the mean access time in seconds, by (8.2)."""
    eat = EffectiveAccessTime.of(server)
    below = most < server.cache_latency_seconds
    never = "it is below the time of its cache itself" if below else None
    return Bound(server.name, code, most, eat.seconds, time_words, never)


def _miss_bound(server: ServerObservation, code: str, most: float) -> Bound:
    """Bound the misses a second, which its backend has to bear."""

    def amounts(sizes_bytes: npt.ArrayLike) -> FloatArray:
        return server.request_rate_per_second * server.curve.miss_ratio(sizes_bytes)

    return Bound(server.name, code, most, amounts, lambda amount: f"{amount:.4g} misses a second")


_MAKERS: dict[str, Callable[[ServerObservation, str, float], Bound]] = {
    "latency_bound_seconds": _latency_bound,
    "miss_bound_per_second": _miss_bound,
}
