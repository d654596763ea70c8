"""Counts the cost of moving: the misses that a change of size causes beside those of its final
state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray, MissRatioCurve
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import AccessCost

# A miss ratio below this counts as this: nothing is divided by zero.
_LEAST_MISS_RATIO = 1e-9
# A fall of the miss ratio that is smaller, relative to it, counts as none.
_FLAT = 1e-9


def moving_misses(server: ServerObservation, sizes_bytes: npt.ArrayLike) -> FloatArray:
    """Return the extra misses of a move from the size in force to each of ``sizes_bytes``, in any
    order.

    A grown cache fills slowly: each miss brings in one object of o bytes, and so do w writes for
    each read. While its contents grow from a to b bytes at the miss ratio r(s), it has r(s) misses
    for each (r(s) + w)·o bytes. Of these, r(b) would be misses at the final size too. The extra
    ones are

        1/o · ∫ from a to b of (r(s) − r(b)) / (r(s) + w) ds,

    at most one for each object of the growth, and none where the curve is flat. A shrunk cache
    loses contents: by the inclusion property of LRU it misses no more than its new size does. But
    taking the move back means to fill the same bytes again, and that is charged with the shrink. So
    a plan that may be wrong must earn what undoing it would cost.

    The idea that a penalty of moving belongs into the decision is pRedis's
    (Pan et al., SoCC 2019); this formula is ours.

    Zero if the size of an object is not known, or no ``maxmemory`` is in force.
    """
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    return _misses(server, sizes, server.curve.miss_ratio(sizes))


def _misses(server: ServerObservation, sizes: FloatArray, ratios: FloatArray) -> FloatArray:
    """Do as ``moving_misses`` does, with the miss ratios at the sizes."""
    now = float(server.maxmemory_bytes)
    if server.mean_object_bytes is None or not now or not sizes.size:
        return np.zeros(sizes.shape)
    written = written_per_read(server)
    extra = _integral_of_inverse(server.curve, now, sizes, ratios, written)
    np.abs(extra, out=extra)
    # At the larger of the two sizes, which is where the miss ratio is the lower.
    final = np.minimum(ratios, server.curve.miss_ratio(now))
    extra *= np.maximum(final + written, _LEAST_MISS_RATIO)
    np.subtract(np.abs(sizes - now), extra, out=extra)
    extra /= server.mean_object_bytes
    return np.maximum(extra, 0.0, out=extra)


def written_per_read(server: ServerObservation) -> float:
    """Return w: objects that come in for each read, and fill no miss."""
    if server.inserted_per_read is None or server.miss_ratio is None:
        return 0.0
    return max(0.0, server.inserted_per_read - server.miss_ratio)


def _integral_of_inverse(
    curve: MissRatioCurve, start: float, sizes: FloatArray, ratios: FloatArray, more: float
) -> FloatArray:
    """Return ∫ of 1/(r(s) + ``more``) ds from a size to each of ``sizes``, where the curve has
    ``ratios``."""
    points, levels = curve.from_zero
    levels = levels + more
    first, last = min(start, sizes.min()), max(start, sizes.max())
    # Only the points on the way, and the one before.
    on_the_way = slice(*np.searchsorted(points, (first, last), "right") - (1, 0))
    points, levels = points[on_the_way], np.maximum(levels[on_the_way], _LEAST_MISS_RATIO)
    places = np.arange(len(points))
    until = np.zeros(len(points))
    np.cumsum(np.diff(points) * _mean_inverse(levels[:-1], levels[1:]), out=until[1:])

    def up_to(sizes: FloatArray, ratios: FloatArray) -> FloatArray:
        place = np.interp(sizes, points, places).astype(np.intp)
        rest = _mean_inverse(levels[place], np.maximum(ratios + more, _LEAST_MISS_RATIO))
        rest *= sizes - points[place]
        rest += until[place]
        return rest

    found = up_to(sizes, ratios)
    found -= up_to(np.array(start), curve.miss_ratio(start))
    return found


def _mean_inverse(first: FloatArray, last: FloatArray) -> FloatArray:
    """Return the mean of 1/r where r falls on a straight line: the integral of 1/r is a
    logarithm."""
    falls = np.asarray(first - last)
    level = falls < _FLAT * last
    falls[level] = 1.0
    means = np.asarray(np.log(first / last))
    means /= falls
    np.divide(1.0, last, out=means, where=level)
    return means


def moving_seconds(
    server: ServerObservation, sizes_bytes: npt.ArrayLike, horizon_seconds: float
) -> FloatArray:
    """Return what a move adds to the server's mean access time over the horizon, in seconds a
    request.

    The extra misses, each a backend access instead of a cache access, over the requests of the
    horizon. Never more than the difference of access times between the two sizes: a growth
    cannot cost more than it would gain, nor undoing a shrink more than the shrink would.
    """
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    return moving_seconds_at(server, sizes, server.curve.miss_ratio(sizes), horizon_seconds)


def moving_seconds_at(
    server: ServerObservation, sizes: FloatArray, ratios: FloatArray, horizon_seconds: float
) -> FloatArray:
    """Do as ``moving_seconds`` does, with the miss ratios at the sizes."""
    requests = server.request_rate_per_second * horizon_seconds
    if not requests:
        return np.zeros(sizes.shape)
    seconds = _misses(server, sizes, ratios)
    seconds /= requests
    at_most = np.abs(ratios - server.curve.miss_ratio(server.maxmemory_bytes))
    np.minimum(seconds, at_most, out=seconds)
    seconds *= AccessCost.of(server).penalty_seconds
    return seconds
