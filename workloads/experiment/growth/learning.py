"""A curve learnt from the samples of one server, and how wrong it is about the next request."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.curves.miss_ratio_histogram import EDGES_BYTES, MissRatioHistogram
from sidecar.curves.shards import Shards
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS, Operation
from workloads.sample_batches import SampledServer

FloatArray = npt.NDArray[np.float64]

# Ranks up to here stand for themselves; further ones are taken together, by ratio.
_SINGLE_RANKS = 10_000
_GROUPS = 20_000
SKEW = 0.99
OBJECT_BYTES = 256
# Sizes at which curve and truth are compared, as shares of all keys: those of most caches, and very
# small ones, by ratio, of which few sampled objects tell.
SHARES = np.linspace(0.05, 1.0, 20)
SMALL_SHARES = np.geomspace(0.001, 0.05, 20)


class ZipfLaw:
    """Key k = 0, 1 ... has probability ~ 1 / (k + 1)^skew.

    Attributes:
        key_count: of all keys.
    """

    def __init__(self, key_count: int, skew: float) -> None:
        self.key_count = key_count
        self._skew = skew
        single = min(key_count, _SINGLE_RANKS)
        edges = np.unique(np.rint(np.geomspace(single + 1, key_count + 1, _GROUPS)))
        firsts = np.concatenate([np.arange(1, single + 1), edges[:-1]])
        ends = np.concatenate([np.arange(2, single + 2), edges[1:]])
        self._counts = ends - firsts
        # Within a group of neighbours the middle one stands for all.
        weights = ((firsts + ends - 1) / 2) ** -skew
        self._total = float(weights @ self._counts)
        self._probabilities = weights / self._total

    def probabilities(self, keys: npt.NDArray[np.int64]) -> FloatArray:
        """Return the probabilities of some keys, shape as given."""
        return np.asarray((keys + 1.0) ** -self._skew / self._total)

    def different(self, requests: float) -> float:
        """Keys that so many requests ask for, on average."""
        return float(self._counts @ -np.expm1(-self._probabilities * requests))

    def window(self, objects: float) -> float:
        """T: requests in which so many different keys are asked for."""
        low, high = 0.0, 1.0
        while self.different(high) < objects:
            if high > 1e18:
                return np.inf
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.different(middle) < objects else (low, middle)
        return high

    def miss_ratios(self, objects: FloatArray, after: float) -> FloatArray:
        """Return what caches of so many objects miss of the next request, when ``after`` requests
        have come since they were empty; shape as ``objects``."""
        mass = self._probabilities * self._counts
        return np.array(
            [mass @ np.exp(-self._probabilities * min(self.window(one), after)) for one in objects]
        )


@dataclass(frozen=True)
class Learnt:
    """Tells what came of it.

    Attributes:
        samples: reads of sampled keys.
        mean_error, worst_error: of the miss ratio, over the sizes.
        small_error: its mean over the very small ones.
        processor_seconds: for all samples.
    """

    samples: int
    mean_error: float
    worst_error: float
    small_error: float
    processor_seconds: float


def learn(
    key_count: int, rate: float, samples: int, live_objects: int, seed: int, before: int = 0
) -> Learnt:
    """A server with ``key_count`` keys under Zipf 0.99, of which ``rate`` are sampled.

    ``samples`` reads are counted, after ``before`` that only the stack has seen. Only what is
    sampled is drawn: which keys, and the reads of them. The server holds nothing, so that each read
    is filled. The curve is SHARDS' with its correction, and not bent to what the server itself
    reports, as the sidecar's is.
    """
    hashes, probabilities, random = _sampled(key_count, rate, seed)
    share = float(probabilities.sum())
    reads = hashes[_draw(probabilities, before + samples, random)]

    shards, histogram = Shards(live_objects), MissRatioHistogram()
    server = SampledServer(threshold=_threshold(rate))
    for message in _filled(server, reads[:before]):
        shards.take(decode_batch(message))
    messages = list(_filled(server, reads[before:]))
    started = time.process_time()
    for message in messages:
        taken = shards.take(decode_batch(message))
        histogram.add(taken.distances_bytes, 1 / taken.rate, taken.ids)
    histogram.reads.new[...] = samples / share
    ratios = histogram.miss_ratios()
    seconds = time.process_time() - started
    objects = np.concatenate([SHARES, SMALL_SHARES]) * key_count
    truth = ZipfLaw(key_count, SKEW).miss_ratios(objects, len(reads) / share)
    off = np.abs(np.interp(objects * OBJECT_BYTES, EDGES_BYTES, ratios) - truth)
    errors, small = off[: len(SHARES)], off[len(SHARES) :]
    return Learnt(samples, float(errors.mean()), float(errors.max()), float(small.mean()), seconds)


def _threshold(rate: float) -> int:
    return max(1, round(rate * DEFAULT_MODULUS))


def _sampled(
    key_count: int, rate: float, seed: int
) -> tuple[npt.NDArray[np.uint64], FloatArray, np.random.Generator]:
    """Hashes of the sampled keys, and how probable they are in the whole stream."""
    random = np.random.default_rng(seed)
    threshold = _threshold(rate)
    count = max(1, round(key_count * threshold / DEFAULT_MODULUS))
    probabilities = ZipfLaw(key_count, SKEW).probabilities(_ranks(key_count, count, random))
    # Below the threshold by their low bits, and else at random, as hashes are.
    high = random.integers(1 << 40, size=count, dtype=np.uint64) * np.uint64(DEFAULT_MODULUS)
    low = random.integers(threshold, size=count, dtype=np.uint64)
    return high + low, probabilities, random


def _draw(
    probabilities: FloatArray, count: int, random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw places, shape (count,)."""
    cumulative = np.cumsum(probabilities)
    places = np.searchsorted(cumulative, random.random(count) * cumulative[-1], side="right")
    return np.asarray(np.minimum(places, len(probabilities) - 1))


def _filled(server: SampledServer, hashes: npt.NDArray[np.uint64]) -> Iterator[bytes]:
    """Yield batches in which each read misses and is filled."""
    return server.batches(
        np.repeat(hashes, 2),
        np.tile([Operation.READ_MISS, Operation.WRITE], len(hashes)),
        np.tile([0, OBJECT_BYTES], len(hashes)),
    )


def _ranks(key_count: int, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw ``count`` different ones of ``key_count``."""
    if count > key_count // 2:
        return np.sort(random.permutation(key_count)[:count])
    ranks = np.unique(random.integers(key_count, size=count))
    while len(ranks) < count:
        more = random.integers(key_count, size=count - len(ranks))
        ranks = np.unique(np.concatenate([ranks, more]))
    return ranks


def stack_bytes(key_count: int, rate: float, live_objects: int, seed: int) -> int:
    """Return what stack and histogram hold when every sampled key has been read a few times."""
    hashes, probabilities, random = _sampled(key_count, rate, seed)
    reads = hashes[_draw(probabilities, 4 * live_objects, random)]
    tracemalloc.start()
    shards, histogram = Shards(live_objects), MissRatioHistogram()
    for message in _filled(SampledServer(threshold=_threshold(rate)), reads):
        taken = shards.take(decode_batch(message))
        histogram.add(taken.distances_bytes, 1 / taken.rate, taken.ids)
    del taken, message
    gc.collect()
    with_them, _ = tracemalloc.get_traced_memory()
    del shards, histogram
    gc.collect()
    held = with_them - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held
