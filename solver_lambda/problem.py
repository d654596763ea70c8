"""The partition problem: from an observation to a grid of utilities over units of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver_lambda.curve import FloatArray
from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.moving import moving_seconds
from solver_lambda.observation import Observation, ServerObservation
from solver_lambda.size_ranges import SizeRange

IntArray = npt.NDArray[np.int64]

# A finer grid is made coarser: 65,536 units are 1 MiB steps on 64 GiB, and the cells of all
# servers together (8 bytes each) must fit a small function beside the copies that solvers make.
MAX_UNITS = 65_536
MAX_CELLS = 1 << 22


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
        utilities: shape (n, max(limits) + 1 or more), minus infinity beyond each limit. In
            seconds: they sum to minus the weighted mean access time, Σ wᵢfᵢEATᵢ / Σ wᵢfᵢ, so
            weights count relative to each other only.
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

    def with_least(self, units: IntArray) -> PartitionProblem:
        """The same problem, with ``units``, shape (n,), as the least that each server has."""
        limits = self.limits - units
        utilities = np.full((len(limits), int(limits.max()) + 1), -np.inf)
        for row, (least, limit) in enumerate(zip(units, limits, strict=True)):
            utilities[row, : limit + 1] = self.utilities[row, least : least + limit + 1]
        bases = tuple(self.sizes_bytes(units).values())
        capacity = self.capacity - int(units.sum())
        return PartitionProblem(
            self.names,
            bases,
            self.unit_bytes,
            capacity,
            np.minimum(limits, capacity),
            utilities[:, : capacity + 1],
        )

    def units_of(self, sizes_bytes: Mapping[str, int]) -> IntArray | None:
        """The units, shape (n,), that give these sizes; ``None`` if none do."""
        above = np.array([sizes_bytes[name] for name in self.names]) - np.array(self.bases_bytes)
        units, rest = np.divmod(above, self.unit_bytes)
        if rest.any() or (units < 0).any() or (units > self.limits).any():
            return None
        return None if units.sum() > self.capacity else units

    def sizes_bytes(self, units: IntArray) -> dict[str, int]:
        """``maxmemory`` of each server, by name; never more than the budget in sum."""
        return {
            name: base + int(count) * self.unit_bytes
            for name, base, count in zip(self.names, self.bases_bytes, units, strict=True)
        }


def shares(servers: tuple[ServerObservation, ...]) -> dict[str, float]:
    """wᵢfᵢ / Σ wᵢfᵢ by name: each server's part in the weighted mean access time.

    As in the thesis' equation (8.1) and table; its text speaks of weighing by the inverse of f.
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
    budget_bytes: int,
    moving: bool,
) -> PartitionProblem:
    """The grid of an observation.

    ``ranges`` by name; their least sizes fit ``budget_bytes``. With ``moving`` the utilities
    include the cost of leaving the sizes in force, spread over the horizon.

    A server's grid starts at its least size, or less than a unit above, so that it meets the size
    in force (or the greatest size, if that is less): to stay is a choice, and not one of the next
    sizes below and above.
    """
    servers = sorted(observation.servers, key=lambda server: server.name)
    share = shares(observation.servers)
    lows = [ranges[server.name].low_bytes for server in servers]
    spans = [
        ranges[server.name].high_bytes - low for server, low in zip(servers, lows, strict=True)
    ]
    unit = _grid_unit(observation.unit_bytes, spans, budget_bytes - sum(lows))
    bases = []
    spare = budget_bytes - sum(lows)
    for server, low, span in zip(servers, lows, spans, strict=True):
        shift = min(max(0, server.maxmemory_bytes - low), span) % unit
        shift = shift if shift <= spare else 0
        spare -= shift
        bases.append(low + shift)
    limits = np.array(
        [
            (min(spare, ranges[server.name].high_bytes - base)) // unit
            for server, base in zip(servers, bases, strict=True)
        ],
        dtype=np.int64,
    )
    utilities = np.full((len(servers), int(limits.max()) + 1), -np.inf)
    steps = np.arange(utilities.shape[1]) * unit
    for row, server in enumerate(servers):
        sizes = bases[row] + steps[: limits[row] + 1]
        seconds = EffectiveAccessTime.of(server).seconds(sizes)
        if moving:
            seconds = seconds + moving_seconds(server, sizes, observation.planning.horizon_seconds)
        utilities[row, : len(sizes)] = -share[server.name] * seconds
    return PartitionProblem(
        names=tuple(server.name for server in servers),
        bases_bytes=tuple(bases),
        unit_bytes=unit,
        capacity=min(spare // unit, int(limits.sum())),
        limits=limits,
        utilities=utilities,
    )


def _grid_unit(unit_bytes: int, spans_bytes: list[int], spare_bytes: int) -> int:
    """The observation's unit, or the multiple of it that keeps the grid within its limits."""
    most = max(min(span, spare_bytes) for span in spans_bytes) // unit_bytes
    total = min(sum(spans_bytes), spare_bytes) // unit_bytes
    coarser = max(-(-total // MAX_UNITS), -(-most * len(spans_bytes) // MAX_CELLS))
    return unit_bytes * max(1, coarser)
