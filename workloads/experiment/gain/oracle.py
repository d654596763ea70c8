"""What could have been had: the best sizes by the exact miss-ratio curves of what was asked."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from sidecar.mrc.trace_stack import TraceStack
from sidecar.traces.chunk import TraceChunk
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.solvers.partition_problem import PartitionProblem
from solver_lambda.solvers.solver import solve
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix
from workloads.experiment.gain.recorded_mix import Requests
from workloads.experiment.gain.simulated_server import (
    BASELINE_BYTES,
    OVERHEAD_BYTES,
    IntArray,
)
from workloads.experiment.gain.simulation import FloatArray, Outcome

UNITS = 1024
_SOLVER_SECONDS = 20.0


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
        """If each cycle had its own best sizes, and caches were warm at once."""
        cycles = range(self._mix.cycles)
        return self.outcome(np.array([self.best_bytes(cycle, cycle + 1) for cycle in cycles]))

    def outcome(self, sizes_bytes: npt.NDArray[np.int64]) -> Outcome:
        """What sizes come to, shape (cycles, servers), if caches were warm at once; each is taken
        as the grid's next smaller one."""
        units = (sizes_bytes - DEFAULT_MINIMUM_BYTES) // self.unit_bytes
        cycles, servers = np.indices(units.shape)
        return Outcome(
            self._mix, self.reads, self.misses[cycles, servers, units], sizes_bytes.astype(float)
        )
