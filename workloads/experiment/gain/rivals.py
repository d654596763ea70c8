"""Divides the memory in other ways, which SPREDS is held against."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from sidecar.curves.decaying_counts import HALF_LIVES
from sidecar.samples.wire_format import Operation
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix, Requests
from workloads.experiment.gain.simulated_server import (
    BASELINE_BYTES,
    OVERHEAD_BYTES,
    REDIS_SAMPLES,
    Served,
    SimulatedServer,
)
from workloads.experiment.gain.simulation import STEPS_A_CYCLE, Division, FloatArray, Outcome
from workloads.experiment.gain.spreds_division import SpredsDivision

# After all reads.
_NONE = (sys.maxsize, 0, Operation.EVICTION)


def by_demand(mix: Mix, requests: Sequence[Requests]) -> list[int]:
    """Divide in proportion to the reads of the whole run."""
    return _in_proportion(mix, [sum(map(len, one.cycles)) for one in requests])


def by_working_set(mix: Mix, requests: Sequence[Requests]) -> list[int]:
    """Divide in proportion to the bytes of all keys that are ever read."""
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

    def begin(self, mix: Mix, servers: list[SimulatedServer]) -> None:
        self._servers = servers
        self._step_bytes = int(self.STEP_SHARE * mix.budget_bytes)
        self._penalties = [
            server.weight * (server.backend_latency_seconds - CACHE_LATENCY_SECONDS)
            for server in mix.servers
        ]
        self._gains = [0.0] * len(servers)
        self._queues: list[OrderedDict[int, None]] = [OrderedDict() for _ in servers]
        self._queued_bytes = [0] * len(servers)

    def follow(self, place: int, served: Served) -> None:
        queue, weights = self._queues[place], self._servers[place].weights
        evicted = iter([one for one in served.removed if one[2] == Operation.EVICTION])
        after, key, _ = next(evicted, _NONE)
        for at in np.flatnonzero(~served.hit).tolist():
            missed = int(served.keys[at])
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
                after, key, _ = next(evicted, _NONE)

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


def one_shared_server(
    mix: Mix, requests: Sequence[Requests], samples: int = REDIS_SAMPLES
) -> Outcome:
    """Put all keys in one server that has all the memory, and one baseline instead of several."""
    starts = np.cumsum([0, *(len(one.sizes_bytes) for one in requests)])
    sizes = np.concatenate([one.sizes_bytes for one in requests])
    ttls = np.repeat(
        [one.ttl_seconds for one in requests], [len(one.sizes_bytes) for one in requests]
    )
    server = SimulatedServer(1, sizes, mix.budget_bytes, ttls_seconds=ttls, samples=samples)
    reads, misses = np.zeros((2, mix.cycles, len(requests)))
    for cycle in range(mix.cycles):
        parts = [one.cycles[cycle] + start for one, start in zip(requests, starts, strict=False)]
        times = np.concatenate([(np.arange(len(part)) + 0.5) / max(1, len(part)) for part in parts])
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(times, kind="stable")
        begin = cycle * mix.cycle_seconds
        keys = np.concatenate(parts)[order]
        hit = server.read(keys, begin, begin + mix.cycle_seconds).hit
        reads[cycle] = [len(part) for part in parts]
        misses[cycle] = np.bincount(owners[order][~hit], minlength=len(parts))
    return Outcome(mix, reads, misses, np.zeros_like(reads))


class ByUse(Division):
    """Divides in proportion to what each server uses, again and again, as large operators do.

    A server gets between half of an equal share and twice that: one that is full is not starved,
    and one that is not gives what it does not use.
    """

    LEAST_SHARE, MOST_SHARE = 0.5, 2.0
    SPARE_RATIO = 0.1

    def begin(self, mix: Mix, servers: list[SimulatedServer]) -> None:
        self._servers, self._budget_bytes = servers, mix.budget_bytes

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:  # noqa: ARG002
        equal_bytes = self._budget_bytes / len(self._servers)
        used = np.array([server.used_bytes + BASELINE_BYTES for server in self._servers])
        least, most = self.LEAST_SHARE * equal_bytes, self.MOST_SHARE * equal_bytes
        wanted = np.clip((1 + self.SPARE_RATIO) * used, least, most)
        # What is above the least is shared in proportion: then no server is below it.
        above = wanted - least
        left = self._budget_bytes - len(used) * least
        if above.sum() <= 0:
            return None
        sizes = least + above * left / above.sum()
        now = np.array([server.maxmemory_bytes for server in self._servers])
        if np.abs(sizes - now).max() < self.SPARE_RATIO * equal_bytes / 10:
            return None
        self.applied += 1
        return [int(size) for size in sizes]


class Annealed(SpredsDivision):
    """Anneals the sizes each minute by curves of the last minutes, after Holpaca (ICPE 2026).

    Each server moves by at most 5 % a step, and none is to hit less often than ``FLOOR`` of what it
    would with an equal share. There it has SHARDS at R = .001 and a period of a second; here the
    curves are of all keys, which is better, and the period is a step.
    """

    STEP_SHARE = 0.05
    FLOOR = 0.8
    PROPOSALS = 60
    FIRST_TEMPERATURE = 0.02
    # The shortest half-life that the monitors have: a twelfth of a cycle.
    LATELY = HALF_LIVES[0]

    def __init__(self, seed: int) -> None:
        super().__init__(1.0, seed)
        self._random = np.random.default_rng(seed)

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:  # noqa: ARG002
        length = self._mix.cycle_seconds / STEPS_A_CYCLE
        for monitor in self._monitors:
            monitor.step(length)
        sizes = np.array([server.maxmemory_bytes for server in self._servers], dtype=float)
        found = self._annealed(sizes)
        if np.array_equal(found, sizes):
            return None
        self.applied += 1
        return [int(size) for size in found]

    def _annealed(self, sizes: FloatArray) -> FloatArray:
        grids = [np.linspace(0.0, 3.0, 61) * size for size in sizes]
        misses = [
            monitor.counts.misses(grid, self.LATELY)
            for monitor, grid in zip(self._monitors, grids, strict=True)
        ]
        reads = [monitor.counts.reads(self.LATELY) for monitor in self._monitors]
        penalties = [
            server.weight * (server.backend_latency_seconds - CACHE_LATENCY_SECONDS)
            for server in self._mix.servers
        ]
        equal_bytes = self._mix.budget_bytes / len(sizes)

        def missed(place: int, size: float) -> float:
            return float(np.interp(size, grids[place], misses[place]))

        most = [
            reads[place] - self.FLOOR * max(0.0, reads[place] - missed(place, equal_bytes))
            for place in range(len(sizes))
        ]
        best = now = sizes.copy()
        best_gain = gain = 0.0
        least, top = (1 - self.STEP_SHARE) * sizes, (1 + self.STEP_SHARE) * sizes
        scale = sum(p * missed(i, sizes[i]) for i, p in enumerate(penalties)) or 1.0
        for proposal in range(self.PROPOSALS):
            giver, taker = self._random.choice(len(sizes), 2, replace=False)
            part = self._random.random() * self.STEP_SHARE * min(sizes[giver], sizes[taker])
            given, taken = now[giver] - part, now[taker] + part
            is_allowed = given >= max(least[giver], DEFAULT_MINIMUM_BYTES) and taken <= top[taker]
            if not is_allowed or missed(giver, given) > most[giver] > 0:
                continue
            change = penalties[taker] * (missed(taker, now[taker]) - missed(taker, taken))
            change -= penalties[giver] * (missed(giver, given) - missed(giver, now[giver]))
            temperature = self.FIRST_TEMPERATURE * (1 - proposal / self.PROPOSALS) * scale
            if change <= 0 and self._random.random() >= math.exp(change / max(1e-12, temperature)):
                continue
            now = now.copy()
            now[giver], now[taker] = given, taken
            gain += change
            if gain > best_gain:
                best, best_gain = now, gain
        return best
