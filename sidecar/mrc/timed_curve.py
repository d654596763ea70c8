"""Makes the miss-ratio curve of a trace under LRU, of objects that live for so long after their
fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sidecar.curves.lifetimes import Lifetimes, TimedAccesses
from sidecar.curves.lru_stack import COLD, LruStack
from sidecar.mrc.sampled_requests import sampled_requests
from sidecar.mrc.seen_times import SeenTimes
from sidecar.mrc.trace_curve import TraceCurve
from sidecar.samples.wire_format import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions

UIntArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]

# What caches of every size do for a request: a look, a fill if it missed, and nobody who would tell
# when the object has expired.
_FOR_A_REQUEST = np.array([Operation.READ_MISS, Operation.WRITE, Operation.EVICTION], np.uint8)
# Expired objects leave so many times in a lifetime.
_ROUNDS = 32


class _TimedMisses:
    """Counts misses of caches of the sizes, by the parts of a server's monitor."""

    def __init__(self, sizes: Sequence[int], ttl_seconds: float, rate: float) -> None:
        self._sizes = np.array(sizes, np.float64)
        self._ttl_seconds = ttl_seconds
        self._rate = rate
        self._stack = LruStack()
        self._lifetimes = Lifetimes()
        # Hits from each size on; the last ones are hits of no size.
        self._hits = np.zeros(len(sizes) + 1, np.int64)

    def misses(self) -> FloatArray:
        """Return the misses of all requests, shape (len(sizes),)."""
        beyond = np.cumsum(self._hits[::-1])[::-1]
        return np.asarray(beyond[1:] / self._rate)

    def take(self, keys: UIntArray, weights: npt.NDArray[np.int64], times: FloatArray) -> None:
        """Take requests in order, shapes (n,)."""
        rounds = np.floor(times / (self._ttl_seconds / _ROUNDS))
        ends = [*(np.flatnonzero(np.diff(rounds)) + 1).tolist(), len(keys)]
        for start, end in zip([0, *ends], ends, strict=False):
            part = slice(start, end)
            self._take_round(keys[part], weights[part], times[part])

    def _take_round(
        self, keys: UIntArray, weights: npt.NDArray[np.int64], times: FloatArray
    ) -> None:
        if not len(keys):
            return
        self._stack.delete(self._lifetimes.due(float(times[0])))
        every = len(_FOR_A_REQUEST)
        operations = np.tile(_FOR_A_REQUEST, len(keys))
        keys = np.repeat(keys, every)
        above, own = self._stack.access(keys, operations, np.repeat(weights, every), 1)
        distances = above / self._rate + own
        distances[above == COLD] = np.inf
        left = np.full(len(keys), self._ttl_seconds)
        timed = TimedAccesses(keys, operations, left, distances, np.repeat(times, every))
        added, removed = self._lifetimes.take(timed, np.inf).moves()
        self._count(distances, 1)
        self._count(added[0], 1)
        self._count(removed[0], -1)

    def _count(self, distances: FloatArray, sign: int) -> None:
        places = np.searchsorted(self._sizes, distances)
        self._hits += sign * np.bincount(places, minlength=len(self._hits))


def timed_curve_of_file(
    path: TracePath,
    format: str | None,  # noqa: A002
    options: ReadOptions,
    forever: TraceCurve,
    sizes: Sequence[int],
    *,
    ttl_seconds: float,
    rate: float,
    salt: int,
) -> TraceCurve:
    """Return the curve, at ``sizes``, of caches where each fill lives for ``ttl_seconds``, whatever
    is read of it meanwhile.

    As in the sidecar, an object leaves all sizes when the last of its copies expires: what a cache
    had of it that expired sooner takes memory until then. Against caches that forget at once, that
    is .01 too many misses at most on Zipf. It is .03 where keys are read evenly and most expire.
    Where a larger cache misses what a smaller one has filled anew, the curve does not rise.

    Args:
        path, format, options: of the file, which is read again.
        forever: its curve of objects without a TTL, by the same sample.
        sizes: of the caches, ascending, in bytes or objects.
        ttl_seconds: more than 0.
        rate, salt: as of ``trace_curve.estimate_curve``.

    Raises:
        TraceError: the file cannot be read, or its format has no times; or its times cannot be of
            this unit, or go back by more than the TTL.
    """
    caches = _TimedMisses([*sizes, np.iinfo(np.int64).max], ttl_seconds, rate)
    now, seen = -np.inf, SeenTimes(path)
    for part in sampled_requests(path, format, options, rate=rate, salt=salt, seen=seen):
        # A clock may step back.
        times = np.maximum.accumulate(np.maximum(part.times_seconds, now))
        now = float(times[-1]) if len(times) else now
        caches.take(part.keys, part.weights, times)
    what = f"the TTL of {ttl_seconds:g} s"
    seen.must_fit(ttl_seconds, what, is_unit_given=options.unit_is_given)
    seen.must_not_go_back(ttl_seconds)
    misses = caches.misses() / max(1, forever.requests)
    *ratios, compulsory = np.minimum.accumulate(np.clip(misses, 0.0, 1.0)).tolist()
    counts = (forever.requests, forever.sampled, forever.live_objects, compulsory)
    curve = TraceCurve(list(sizes), ratios, *counts)
    curve.take_words(forever, options, seen)
    return curve
