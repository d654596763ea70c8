"""Seeded random reads whose misses are filled, as clients of a cache do; and exact LRU of them."""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

from workloads.local_server import LocalServer

_PIPELINED = 50


class ReadThrough:
    """A load of one server; ``seconds`` of it, each as many reads. Popularity is Zipf's."""

    def __init__(
        self,
        server: LocalServer,
        *,
        keys: int,
        skew: float,
        rate: int,
        seconds: int,
        seed: int = 3,
        value: bytes = b"x" * 300,
        ttl_seconds: int | None = None,
    ) -> None:
        draws = np.random.default_rng(seed)
        weights = np.cumsum(np.arange(1, keys + 1, dtype=float) ** -skew)
        places = np.searchsorted(weights / weights[-1], draws.random(rate * seconds))
        self.sequence = draws.permutation(keys)[places.clip(0, keys - 1)]
        self.rate, self.done = rate, 0
        self._client, self._value = server.client, value
        self._more = () if ttl_seconds is None else ("EX", ttl_seconds)

    def second(self) -> None:
        """Read for the next second."""
        for start in range(self.done, self.done + self.rate, _PIPELINED):
            end = min(start + _PIPELINED, self.done + self.rate)
            self._read([b"key:%d" % one for one in self.sequence[start:end]])
        self.done += self.rate

    def _read(self, keys: list[bytes]) -> None:
        reads = self._client.pipeline(transaction=False)
        for key in keys:
            reads.execute_command("GET", key)
        answers = reads.execute()
        missed = [key for key, one in zip(keys, answers, strict=True) if one is None]
        if missed:
            fills = self._client.pipeline(transaction=False)
            for key in missed:
                fills.execute_command("SET", key, self._value, *self._more)
            fills.execute()


def lru_distances(sequence: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return how many objects an LRU cache must hold for each read to hit; slow and plain."""
    last: dict[int, int] = {}
    stack: list[int] = []  # times of the last reads, the latest at the end
    distances = np.full(len(sequence), np.inf)
    for time, key in enumerate(sequence.tolist()):
        if key in last:
            place = bisect.bisect_left(stack, last[key])
            distances[time] = len(stack) - place
            del stack[place]
        stack.append(time)
        last[key] = time
    return distances
