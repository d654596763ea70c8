"""What could have been had: the best sizes by the exact miss-ratio curves of what was asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from sidecar.mrc.trace_stack import TraceStack
from sidecar.traces.chunk import TraceChunk
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.solvers.partition_problem import PartitionProblem
from solver_lambda.solvers.solver import solve
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix, Requests
from workloads.experiment.gain.simulated_server import BASELINE_BYTES, OVERHEAD_BYTES, IntArray
from workloads.experiment.gain.simulation import FloatArray, Outcome
from workloads.experiment.gain.spreds_division import START_SECONDS

UNITS = 1024
_SOLVER_SECONDS = 20.0
# Compared at so many sizes, from this share of the size in force to the whole budget.
_SIZES = 8
_LEAST_SHARE = 0.1
# Of a cycle, in which times are told apart.
_PARTS = 720
# A miss ratio of fewer reads is not known well enough to be compared with.
_FEWEST_READS = 100


class Oracle:
    """Exact misses of each cycle and server over sizes, and the divisions that follow.

    Attributes:
        sizes_bytes: the grid, shape (UNITS + 1,).
        misses: shape (cycles, servers, UNITS + 1).
        reads: shape (cycles, servers).
    """

    def __init__(self, mix: Mix, requests: Sequence[Requests]) -> None:
        self._mix = mix
        count = len(mix.servers)
        spare = mix.budget_bytes - count * DEFAULT_MINIMUM_BYTES
        self.unit_bytes = spare // UNITS
        self.sizes_bytes = DEFAULT_MINIMUM_BYTES + np.arange(UNITS + 1) * self.unit_bytes
        self.misses = np.stack([self._misses(one, self._lives(one)) for one in requests], axis=1)
        self.reads = np.array(
            [[len(keys) for keys in one.cycles] for one in requests], dtype=np.float64
        ).T
        penalties = [
            server.weight * (server.backend_latency_seconds - CACHE_LATENCY_SECONDS)
            for server in mix.servers
        ]
        self._penalties = np.array(penalties)

    def _lives(self, requests: Requests) -> list[IntArray]:
        """A number for each life of each key, in place of keys: where all fits, it is filled anew
        when its TTL has passed. (A smaller cache fills some keys later, which it had evicted; that
        they then live for longer is not followed.)"""
        if not requests.ttl_seconds:
            return requests.cycles
        filled: dict[int, tuple[float, int]] = {}
        cycles, count = [], 0
        for cycle, keys in enumerate(requests.cycles):
            lives = []
            times = cycle + (np.arange(len(keys)) + 0.5) / max(1, len(keys))
            for key, now in zip(
                keys.tolist(), (times * self._mix.cycle_seconds).tolist(), strict=True
            ):
                ends, life = filled.get(key, (0.0, 0))
                if ends <= now:
                    count += 1
                    ends, life = filled[key] = (now + requests.ttl_seconds, count)
                lives.append(life)
            cycles.append(np.array(lives, np.int64))
        return cycles

    def _misses(self, requests: Requests, lives: list[IntArray]) -> FloatArray:
        stack = TraceStack(in_bytes=True)
        weights = (requests.sizes_bytes + OVERHEAD_BYTES).astype("<u4")
        before = np.zeros(UNITS + 1)
        rows = []
        for keys, numbers in zip(requests.cycles, lives, strict=True):
            stack.take(TraceChunk(np.zeros(len(keys)), numbers.astype("<u8"), weights[keys]))
            distances, counts = (np.array(part) for part in stack.histogram())
            beyond = np.concatenate((np.cumsum(counts[::-1])[::-1], [0.0])) + stack.cold
            room = np.maximum(0, self.sizes_bytes - BASELINE_BYTES)
            missed = beyond[np.searchsorted(distances, room, side="right")]
            rows.append(missed - before)
            before = missed
        return np.array(rows)

    def best_bytes(self, first: int = 0, last: int | None = None) -> list[int]:
        """The best fixed sizes for some cycles, the first is 0."""
        missed = self.misses[first:last].sum(axis=0)
        utilities = -missed * self._penalties[:, None]
        count = len(utilities)
        asked = max(1.0, float(np.abs(utilities).sum()))
        problem = PartitionProblem(
            tuple(f"{place:04}" for place in range(count)),
            (DEFAULT_MINIMUM_BYTES,) * count,
            self.unit_bytes,
            UNITS,
            np.full(count, UNITS, dtype=np.int64),
            utilities / asked,
        )
        deadline = time.perf_counter() + _SOLVER_SECONDS
        found = solve(problem, PlanningSettings(), deadline_seconds=deadline)
        return list(problem.sizes_bytes(found.units).values())

    def best_of_each_window(self) -> Outcome:
        """Return the outcome if each cycle had its own best sizes, and caches were warm at once."""
        cycles = range(self._mix.cycles)
        return self.outcome(np.array([self.best_bytes(cycle, cycle + 1) for cycle in cycles]))

    def outcome(self, sizes_bytes: npt.NDArray[np.int64]) -> Outcome:
        """Return what sizes come to, shape (cycles, servers), if caches were warm at once; each is
        taken as the grid's next smaller one."""
        units = (sizes_bytes - DEFAULT_MINIMUM_BYTES) // self.unit_bytes
        cycles, servers = np.indices(units.shape)
        return Outcome(
            self._mix, self.reads, self.misses[cycles, servers, units], sizes_bytes.astype(float)
        )


class StatedErrors(NamedTuple):
    """Shares of what was compared: errors within the stated one, and within twice of it."""

    within_ratio: float
    within_twice_ratio: float


def stated_errors(
    mix: Mix, oracle: Oracle, observations: Sequence[Observation]
) -> StatedErrors | None:
    """Compare the curves that may be used, each with the exact one of as long a time as a cycle
    has. ``None``: there is none to compare. Exact curves are those of cycles, or between two of
    them."""
    ratios: list[float] = []
    for observation in observations:
        cycle = (observation.made_at_seconds - START_SECONDS) / mix.cycle_seconds
        first, part = divmod(round(cycle * _PARTS), _PARTS)
        if first + bool(part) < mix.cycles:
            ratios += _ratios(mix, oracle, observation, first, part / _PARTS)
    if not ratios:
        return None
    return StatedErrors(*(float(np.mean(np.array(ratios) <= times)) for times in (1, 2)))


def _ratios(
    mix: Mix, oracle: Oracle, observation: Observation, cycle: int, part: float
) -> list[float]:
    """Errors over stated errors; such a part of the time that counts lies in the next cycle."""
    found: list[float] = []
    last = cycle + bool(part)
    all_reads = (1 - part) * oracle.reads[cycle] + part * oracle.reads[last]
    all_misses = (1 - part) * oracle.misses[cycle] + part * oracle.misses[last]
    places = {server.name: place for place, server in enumerate(mix.servers)}
    for server in observation.servers:
        place = places[server.name]
        reads = all_reads[place]
        least = max(_LEAST_SHARE * server.maxmemory_bytes, oracle.sizes_bytes[0])
        # An error of 1 says that nothing is known.
        if server.keep_reason or server.curve_error_ratio == 1 or reads < _FEWEST_READS:
            continue
        sizes = np.geomspace(least, observation.budget_bytes, _SIZES)
        exact = np.interp(sizes, oracle.sizes_bytes, all_misses[place]) / reads
        errors = np.abs(server.curve.miss_ratio(sizes) - exact)
        found += (errors / max(1e-9, server.curve_error_ratio)).tolist()
    return found
