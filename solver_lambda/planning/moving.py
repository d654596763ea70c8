"""The cost of moving: the misses that a change of size causes beside those of its final state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import EffectiveAccessTime

# A miss ratio below this counts as this: nothing is divided by zero.
_LEAST_MISS_RATIO = 1e-9
# A fall of the miss ratio that is smaller, relative to it, counts as none.
_FLAT = 1e-9


def moving_misses(server: ServerObservation, sizes_bytes: npt.ArrayLike) -> FloatArray:
    """Extra misses of a move from the size in force to each of ``sizes_bytes``, in any order.

    A grown cache fills slowly: each miss brings in one object of o bytes, so while its contents
    grow from a to b bytes at the miss ratio r(s), it has r(s) misses for each r(s)·o bytes, of
    which r(b) would be misses at the final size too. The extra ones are

        1/o · ∫ from a to b of (1 − r(b) / r(s)) ds,

    at most one for each object of the growth, and none where the curve is flat. A shrunk cache
    loses contents: by the inclusion property of LRU it misses no more than its new size does, but
    taking the move back means to fill the same bytes again, and that is charged with the shrink.
    So a plan that may be wrong must earn what undoing it would cost.

    The idea that a penalty of moving belongs into the decision is pRedis's
    (Pan et al., SoCC 2019); this formula is ours.

    Zero if the size of an object is not known, or no ``maxmemory`` is in force.
    """
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    now = server.maxmemory_bytes
    if server.mean_object_bytes is None or not now:
        return np.zeros(sizes.shape)
    points = np.unique(np.concatenate((sizes.ravel(), [float(now)], server.curve.sizes_bytes)))
    ratios = np.maximum(server.curve.miss_ratio(points), _LEAST_MISS_RATIO)
    # Between its points the curve is a straight line, and the integral of 1/r is a logarithm.
    falls = -np.diff(ratios)
    level = falls < _FLAT * ratios[1:]
    means = np.where(
        level, 1 / ratios[1:], np.log(ratios[:-1] / ratios[1:]) / np.where(level, 1.0, falls)
    )
    inverse = np.concatenate(([0.0], np.cumsum(np.diff(points) * means)))
    change = np.abs(np.interp(sizes, points, inverse) - np.interp(now, points, inverse))
    final = np.maximum(server.curve.miss_ratio(np.maximum(sizes, now)), _LEAST_MISS_RATIO)
    extra = (np.abs(sizes - now) - final * change) / server.mean_object_bytes
    return np.asarray(np.maximum(extra, 0.0))


def moving_seconds(
    server: ServerObservation, sizes_bytes: npt.ArrayLike, horizon_seconds: float
) -> FloatArray:
    """What a move adds to the server's mean access time over the horizon, in seconds a request.

    The extra misses, each a backend access instead of a cache access, over the requests of the
    horizon. Never more than the difference of access times between the two sizes: a growth
    cannot cost more than it would gain, nor undoing a shrink more than the shrink would.
    """
    requests = server.request_rate_per_second * horizon_seconds
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    if not requests:
        return np.zeros(sizes.shape)
    eat = EffectiveAccessTime.of(server)
    penalty = eat.backend_latency_seconds - eat.cache_latency_seconds
    now = server.curve.miss_ratio(server.maxmemory_bytes)
    at_most = np.abs(server.curve.miss_ratio(sizes) - now)
    return np.asarray(np.minimum(moving_misses(server, sizes) / requests, at_most) * penalty)
