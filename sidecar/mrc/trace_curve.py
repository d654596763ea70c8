"""The miss-ratio curve of a trace under LRU, exact or by SHARDS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.mrc.compiled import CompiledStack
from sidecar.mrc.library import library
from sidecar.mrc.pure import PureStack
from sidecar.traces.chunk import TraceChunk

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TraceCurve:
    """Miss ratio over cache size, cold misses included.

    Attributes:
        sizes: shape (k,), increasing, in objects or bytes (key and value, no overhead).
        miss_ratios: shape (k,), of caches of those sizes; a step function between them.
        requests, sampled: seen, and of sampled objects.
        live_objects: sampled ones, at the end.
        compulsory_miss_ratio: of a cache without a limit.
    """

    sizes: FloatArray
    miss_ratios: FloatArray
    requests: int
    sampled: int
    live_objects: int
    compulsory_miss_ratio: float

    def miss_ratio(self, sizes: npt.ArrayLike) -> FloatArray:
        """Miss ratio at each size; 1 below the first point."""
        places = np.searchsorted(self.sizes, np.asarray(sizes, dtype=np.float64), side="right")
        return np.concatenate(([1.0], self.miss_ratios))[places]

    def size_for_hit_ratio(self, hit_ratio: float) -> float | None:
        """The smallest size with this hit ratio, or ``None``: no cache is large enough."""
        reached = np.flatnonzero(1 - self.miss_ratios >= hit_ratio - 1e-12)
        return float(self.sizes[reached[0]]) if len(reached) else None


def estimate_curve(
    chunks: Iterable[TraceChunk],
    *,
    in_bytes: bool = False,
    rate: float = 1.0,
    limit_objects: int | None = None,
    salt: int = 0,
    compiled: bool | None = None,
) -> TraceCurve:
    """Read a whole trace.

    Args:
        chunks: of the trace.
        in_bytes: by bytes instead of objects.
        rate: fixed-rate SHARDS; 1 is exact (by bytes, to 0.1 % of the size).
        limit_objects: fixed-size SHARDS with so many live objects.
        salt: chooses the sample.
        compiled: the C library or Python; ``None``: what there is.

    Sampled curves have the first-bucket correction (SHARDS_adj): sampled requests stand for as
    many as there were; the difference are hits at any size, since it comes from very frequent
    objects being in the sample or not.
    """
    kind = CompiledStack if (library() is not None if compiled is None else compiled) else PureStack
    stack = kind(in_bytes=in_bytes, rate=rate, limit_objects=limit_objects, salt=salt)
    for chunk in chunks:
        stack.take(chunk)
    distances, counts = stack.histogram()
    beyond = stack.cold + np.concatenate((np.cumsum(counts[::-1])[::-1][1:], [0.0]))
    requests = max(stack.requests, 1)
    return TraceCurve(
        distances.astype(np.float64),
        np.clip(beyond[: len(distances)] / requests, 0.0, 1.0),
        stack.requests,
        stack.sampled,
        stack.live_objects,
        min(stack.cold / requests, 1.0),
    )
