"""Reads the sampled requests of a file, for caches that are played through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.traces.trace_reader import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.mrc.seen_times import SeenTimes
    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions


class SampledRequests(NamedTuple):
    """Holds requests in order, shapes (n,); weights are bytes, or 1 for each object."""

    keys: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.int64]
    times_seconds: npt.NDArray[np.float64]


def sampled_requests(
    path: TracePath,
    format: str | None,  # noqa: A002
    options: ReadOptions,
    *,
    rate: float,
    salt: int,
    seen: SeenTimes,
) -> Iterator[SampledRequests]:
    """Yield a part of the file at a time.

    Args:
        path, format, options: as of ``read_trace``.
        rate, salt: as of ``trace_curve.estimate_curve``.
        seen: gets the times of all requests, sampled or not.

    Raises:
        TraceError: the file cannot be read, or its times cannot be of this unit.
    """
    threshold = np.uint64(min(round(rate * 2**64), 2**64) - 1)
    for chunk in read_trace(path, format, options):
        seen.take(chunk.times_seconds)
        hashes = mix(chunk.keys ^ salted(salt))
        mine = np.flatnonzero(hashes <= threshold)
        weights = np.maximum(chunk.sizes_bytes[mine], 1) if options.in_bytes else np.ones_like(mine)
        yield SampledRequests(hashes[mine], weights.astype(np.int64), chunk.times_seconds[mine])


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix identities by the finaliser of SplitMix64 (Steele et al., OOPSLA'14)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def salted(salt: int) -> npt.NDArray[np.uint64]:
    """Return what identities are combined with before they are mixed, shape (1,)."""
    with np.errstate(over="ignore"):
        return mix(np.array([salt], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
