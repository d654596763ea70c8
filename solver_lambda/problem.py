"""The partition problem: from an observation to a grid of utilities over units of memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver_lambda.curve import FloatArray
from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.observation import Observation, ServerObservation

IntArray = npt.NDArray[np.int64]

# A finer grid is made coarser: 65,536 units are 1 MiB steps on 64 GiB, and the cells of all
# servers together (8 bytes each) must fit a small function beside the copies that solvers make.
MAX_UNITS = 65_536
MAX_CELLS = 1 << 22


@dataclass(frozen=True)
class SizeRange:
    """The sizes that one server may have: from ``low_bytes`` to ``high_bytes``, both included."""

    low_bytes: int
    high_bytes: int


@dataclass(frozen=True, eq=False)
class PartitionProblem:
    """Maximise the sum of ``utilities[i, k[i]]`` so that k sums to ``capacity`` at most.

    A multiple-choice knapsack problem. Server i then has ``bases_bytes[i] + k[i] * unit_bytes``.

    Attributes:
        names: n servers, sorted, so that their order in the observation does not matter.
        bases_bytes: the least each may have.
        unit_bytes: step of the grid, a multiple of the observation's.
        capacity: units to give away, above all bases.
        limits: shape (n,), the most units each may have, within [0, capacity].
        utilities: shape (n, max(limits) + 1), minus infinity beyond each limit. In seconds: they
            sum to minus the weighted mean access time, Σ wᵢfᵢEATᵢ / Σ wᵢfᵢ, so weights count
            relative to each other only.
    """

    names: tuple[str, ...]
    bases_bytes: tuple[int, ...]
    unit_bytes: int
    capacity: int
    limits: IntArray
    utilities: FloatArray

    def value(self, units: IntArray) -> float:
        """The sum of utilities for ``units``, shape (n,)."""
        return float(self.utilities[np.arange(len(units)), units].sum())

    def sizes_bytes(self, units: IntArray) -> dict[str, int]:
        """``maxmemory`` of each server, by name; never more than the budget in sum."""
        return {
            name: base + int(count) * self.unit_bytes
            for name, base, count in zip(self.names, self.bases_bytes, units, strict=True)
        }


def shares(servers: tuple[ServerObservation, ...]) -> dict[str, float]:
    """wᵢfᵢ / Σ wᵢfᵢ by name: each server's part in the weighted mean access time.

    All 0 if nobody reads, or nobody has a weight.
    """
    # Rounded, so that weights scaled by a common factor give the very same shares.
    heaviest = max(server.weight for server in servers) or 1.0
    demand = {
        server.name: round(server.weight / heaviest, 12) * server.request_rate_per_second
        for server in sorted(servers, key=lambda server: server.name)
    }
    total = sum(demand.values()) or 1.0
    return {name: value / total for name, value in demand.items()}


def build_problem(
    observation: Observation,
    ranges: dict[str, SizeRange],
    *,
    budget_bytes: int | None = None,
) -> PartitionProblem:
    """The grid of an observation.

    Raises:
        ValueError: the least sizes already exceed the budget.
    """
    servers = sorted(observation.servers, key=lambda server: server.name)
    share = shares(observation.servers)
    bases = tuple(ranges[server.name].low_bytes for server in servers)
    budget = observation.budget_bytes if budget_bytes is None else budget_bytes
    free_bytes = budget - sum(bases)
    if free_bytes < 0:
        raise ValueError(f"the least sizes sum to {sum(bases)} bytes, more than budget {budget}")
    unit = observation.unit_bytes
    most_units = min(MAX_UNITS, MAX_CELLS // len(servers))
    unit *= max(1, -(-(free_bytes // unit) // most_units))
    capacity = free_bytes // unit
    limits = np.array(
        [
            min(capacity, (ranges[server.name].high_bytes - base) // unit)
            for server, base in zip(servers, bases, strict=True)
        ],
        dtype=np.int64,
    )
    utilities = np.full((len(servers), int(limits.max()) + 1), -np.inf)
    steps = np.arange(utilities.shape[1]) * unit
    for row, server in enumerate(servers):
        sizes = bases[row] + steps[: limits[row] + 1]
        utilities[row, : limits[row] + 1] = -share[server.name] * EffectiveAccessTime.of(
            server
        ).seconds(sizes)
    return PartitionProblem(
        tuple(server.name for server in servers), bases, unit, capacity, limits, utilities
    )
