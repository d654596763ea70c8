"""Defines the estimate: what a monitor knows of one server at the end of a window."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.curves.other_policies import OtherPolicy
from solver_lambda.documents.curve import MissRatioCurve


@dataclass(frozen=True)
class Estimate:
    """Holds what one window, and those before it, say of a server.

    Attributes:
        curve: miss ratio over ``maxmemory``, up to the budget; anchored.
        raw_curve: the same without anchoring.
        curve_error_ratio: expected absolute error of the curve's miss ratio in the next window: of
            the sampling and of the last windows (``WindowError``), or the drift, if that is more.
            The sampling's part is the largest of its standard errors from a tenth of the present
            size to the budget; of a simulated policy, it is that of LRU.
        drift_ratio: miss ratio as predicted for the windows so far, less what the server reported.
        sampled_objects: live in the stack.
        mean_object_bytes: memory that a key takes, ``None`` if unknown.
        request_rate_per_second: reads, by the server's counters.
        miss_ratio: of the window, by the server's counters; ``None`` without reads.
        inserted_per_read: objects that came in and stayed or were evicted for others, for each read
            of the window; ``None`` without reads.
        measured_backend_latency_seconds: see ``BackendLatency`` for when it is biased; ``None`` if
            too few misses were filled.
        fill_ratio: share of the misses that were filled; ``None`` if none is decided.
        chance_ratio: share of the misses that were written, but perhaps by chance.
        pinned_bytes: under ``volatile-lru``, of the keys without a TTL.
        enough_bytes: see ``UnfilledMemory``; ``None`` if the server fills its memory.
        keep_reason: why this server's size must not change, or ``None``.
        other_policies: what they would make of it; none while the curve is not known.
    """

    curve: MissRatioCurve
    raw_curve: MissRatioCurve
    curve_error_ratio: float
    drift_ratio: float
    sampled_objects: int
    mean_object_bytes: float | None
    request_rate_per_second: float
    miss_ratio: float | None
    inserted_per_read: float | None
    window_seconds: float
    measured_backend_latency_seconds: float | None
    fill_ratio: float | None
    chance_ratio: float
    pinned_bytes: int
    enough_bytes: int | None
    keep_reason: str | None
    other_policies: tuple[OtherPolicy, ...] = ()
