"""The sampled requests of a file, for caches that are played through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.mrc.pure import mix, salted
from sidecar.traces.lines import unused_columns
from sidecar.traces.trace_reader import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.file import Progress, TracePath


class SampledRequests(NamedTuple):
    """In order, shapes (n,); weights are bytes, or 1 for each object."""

    keys: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.int64]
    times_seconds: npt.NDArray[np.float64]


def sampled_requests(
    path: TracePath,
    format: str | None,  # noqa: A002
    *,
    in_bytes: bool,
    rate: float,
    salt: int,
    timed: bool = False,
    progress: Progress | None = None,
) -> Iterator[SampledRequests]:
    """A part of the file at a time; arguments as of ``trace_curve.estimate_curve_of_file``.

    ``timed``: a format without times is refused. Raises TraceError.
    """
    threshold = np.uint64(min(round(rate * 2**64), 2**64) - 1)
    may_lack = unused_columns(in_bytes=in_bytes, timed=True)
    for chunk in read_trace(
        path, format, progress=progress, in_bytes=in_bytes, timed=timed, may_lack=may_lack
    ):
        hashes = mix(chunk.keys ^ salted(salt))
        mine = np.flatnonzero(hashes <= threshold)
        weights = np.maximum(chunk.sizes_bytes[mine], 1) if in_bytes else np.ones_like(mine)
        yield SampledRequests(hashes[mine], weights.astype(np.int64), chunk.times_seconds[mine])
