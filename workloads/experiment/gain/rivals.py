"""Other ways to divide the memory: by rules of thumb, and by hill climbing on the spot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from workloads.experiment.gain.exact_lru import OVERHEAD_BYTES, ExactLru
from workloads.experiment.gain.loads import IntArray
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix
from workloads.experiment.gain.recorded_mix import Requests
from workloads.experiment.gain.simulation import Division, Outcome


def by_demand(mix: Mix, requests: Sequence[Requests]) -> list[int]:
    """In proportion to the reads of the whole run."""
    return _in_proportion(mix, [sum(map(len, one.cycles)) for one in requests])


def by_working_set(mix: Mix, requests: Sequence[Requests]) -> list[int]:
    """In proportion to the bytes of all keys that are ever read."""
    parts = []
    for one in requests:
        used = np.unique(np.concatenate(one.cycles))
        parts.append(int((one.sizes_bytes[used].astype(np.int64) + OVERHEAD_BYTES).sum()))
    return _in_proportion(mix, parts)


def _in_proportion(mix: Mix, parts: Sequence[float]) -> list[int]:
    spare = mix.budget_bytes - len(parts) * DEFAULT_MINIMUM_BYTES
    total = sum(parts) or 1
    return [DEFAULT_MINIMUM_BYTES + int(spare * part / total) for part in parts]


class Climber(Division):
    """A hill climber by shadow queues, after Cliffhanger (Cidon and others, NSDI'16).

    Each server has a queue of the keys that it evicted last. Whose queue is hit most, weighted by
    what a miss costs, gets a step of memory from whose is hit least.
    """

    STEP_SHARE = 0.005

    def begin(self, mix: Mix, servers: list[ExactLru]) -> None:
        self._servers = servers
        self._step_bytes = int(self.STEP_SHARE * mix.budget_bytes)
        self._penalties = [
            server.weight * (server.backend_latency_seconds - CACHE_LATENCY_SECONDS)
            for server in mix.servers
        ]
        self._gains = [0.0] * len(servers)
        self._queues: list[OrderedDict[int, None]] = [OrderedDict() for _ in servers]
        self._queued_bytes = [0] * len(servers)
        for server in servers:
            server.evicted = []

    def follow(
        self,
        place: int,
        keys: IntArray,
        hit: npt.NDArray[np.bool_],
        seconds: tuple[float, float],  # noqa: ARG002
    ) -> None:
        server, queue = self._servers[place], self._queues[place]
        weights = server.weights
        assert server.evicted is not None
        evicted = iter(server.evicted)
        after, key = next(evicted, (len(keys), 0))
        for at in np.flatnonzero(~hit).tolist():
            missed = int(keys[at])
            if missed in queue:
                del queue[missed]
                self._queued_bytes[place] -= weights[missed]
                self._gains[place] += self._penalties[place]
            while after <= at:
                if key not in queue:
                    self._queued_bytes[place] += weights[key]
                queue[key] = None
                queue.move_to_end(key)
                while self._queued_bytes[place] > self._step_bytes:
                    self._queued_bytes[place] -= weights[queue.popitem(last=False)[0]]
                after, key = next(evicted, (len(keys), 0))
        server.evicted.clear()

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:  # noqa: ARG002
        sizes = [server.maxmemory_bytes for server in self._servers]
        best = int(np.argmax(self._gains))
        may_give = [
            place
            for place, size in enumerate(sizes)
            if place != best and size - self._step_bytes >= DEFAULT_MINIMUM_BYTES
        ]
        if not may_give:
            return None
        worst = min(may_give, key=lambda place: self._gains[place])
        if self._gains[best] <= self._gains[worst]:
            return None
        self.applied += 1
        sizes[worst] -= self._step_bytes
        sizes[best] += self._step_bytes
        self._gains = [gain * 0.9 for gain in self._gains]
        return sizes


def one_shared_server(mix: Mix, requests: Sequence[Requests]) -> Outcome:
    """All keys in one server that has all the memory, and one baseline instead of several."""
    starts = np.cumsum([0, *(len(one.sizes_bytes) for one in requests)])
    sizes = np.concatenate([one.sizes_bytes for one in requests])
    server = ExactLru(1, sizes, mix.budget_bytes)
    reads, misses = np.zeros((2, mix.cycles, len(requests)))
    for cycle in range(mix.cycles):
        parts = [one.cycles[cycle] + start for one, start in zip(requests, starts, strict=False)]
        times = np.concatenate([(np.arange(len(part)) + 0.5) / max(1, len(part)) for part in parts])
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(times, kind="stable")
        hit = server.read(np.concatenate(parts)[order])
        reads[cycle] = [len(part) for part in parts]
        misses[cycle] = np.bincount(owners[order][~hit], minlength=len(parts))
    return Outcome(mix, reads, misses, np.zeros_like(reads))
