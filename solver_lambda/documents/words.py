"""Phrases that plans and the sidecar's commands share."""

from __future__ import annotations


def time_words(seconds: float) -> str:
    """A time for people, in milliseconds."""
    return f"{seconds * 1e3:.4g} ms"


def backend_latency_words(
    used_seconds: float, source: str, measured_seconds: float | None, fill_ratio: float | None
) -> str:
    """The latency that counts, what was measured, and what is known to be wrong with that."""
    words = {"team": "as its team says", "configured": "as configured"}
    told = f"{time_words(used_seconds)} {words[source]}, " if source in words else ""
    if measured_seconds is not None:
        limits = "from a miss to its fill, clients' queues included"
        if fill_ratio is not None and fill_ratio < 0.995:
            limits += f"; {1 - fill_ratio:.0%} of the misses were never filled, and left out"
        return f"{told}{time_words(measured_seconds)} as measured ({limits})"
    if fill_ratio is not None:
        return f"{told}not measured: too few fills yet ({fill_ratio:.0%} of the misses)"
    return f"{told}not measured"
