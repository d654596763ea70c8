"""Makes plans that nobody carries out: coarse, quick, and only to be judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.curves.decaying_counts import HALF_LIVES, HalfLife
from sidecar.curves.read_counts import ReadCounts
from solver_lambda.solvers.hill_climbing import LookAhead
from solver_lambda.solvers.lagrangian import lagrangian_bound
from solver_lambda.solvers.partition_problem import PartitionProblem

FloatArray = npt.NDArray[np.float64]
UNITS = 256
_SAME_RATIO = 0.1
# Of an interval, until it is as narrow as numbers are exact.
_HALVINGS = 80


@dataclass(frozen=True)
class PlannedServer:
    """Tells what a virtual plan needs to know of a server that a plan may change.

    Attributes:
        hit_seconds: what a read that hits costs, weighted.
        penalty_seconds: what one that misses costs more, weighted.
        minimum_bytes, maximum_bytes: bounds (``None``: no upper bound).
    """

    name: str
    hit_seconds: float
    penalty_seconds: float
    minimum_bytes: int
    maximum_bytes: int | None = None

    @property
    def bounds(self) -> tuple[str, int, int | None]:
        """Return the server's name with its least and its most bytes."""
        return self.name, self.minimum_bytes, self.maximum_bytes


class VirtualPlanner:
    """Divides ``budget_bytes`` between servers, in ``UNITS`` units above their minima."""

    def __init__(self, servers: Sequence[PlannedServer], budget_bytes: int) -> None:
        self.servers = tuple(sorted(servers, key=lambda server: server.name))
        self._minima = np.array([server.minimum_bytes for server in self.servers])
        self.unit_bytes = max(1, (budget_bytes - int(self._minima.sum())) // UNITS)
        limits = [
            UNITS
            if server.maximum_bytes is None
            else (server.maximum_bytes - server.minimum_bytes) / self.unit_bytes
            for server in self.servers
        ]
        self._most_units = np.clip(limits, 0, UNITS)
        self._limits = self._most_units.astype(np.int64)
        self._grid: FloatArray = np.arange(UNITS + 1) * np.float64(self.unit_bytes)

    def divides_as(self, other: VirtualPlanner) -> bool:
        """Whether plans by the one can be judged by the other: what is left for the servers is
        never quite the same."""
        mine, theirs = ([server.bounds for server in one.servers] for one in (self, other))
        return mine == theirs and math.isclose(
            self.unit_bytes, other.unit_bytes, rel_tol=_SAME_RATIO
        )

    def weighs_as(self, other: VirtualPlanner) -> bool:
        """Whether misses of the same servers cost about the same beside each other."""
        mine, theirs = (
            np.array([server.penalty_seconds for server in one.servers]) for one in (self, other)
        )
        return np.allclose(mine * theirs.sum(), theirs * mine.sum(), rtol=_SAME_RATIO, atol=0)

    def reprice(self, servers: Sequence[PlannedServer]) -> None:
        """Take what hits and misses cost now; the servers are the same."""
        self.servers = tuple(sorted(servers, key=lambda server: server.name))

    def most_cost(self, counts: Mapping[str, ReadCounts]) -> float:
        """Return the cost a second, by the longest half-life, had each server its minimum. The last
        step would not do: it may be an instant without any read."""
        longest = HALF_LIVES[-1]
        return float(self.miss_costs(counts, longest)[:, 0].sum()) + self.hit_costs(counts, longest)

    def miss_costs(
        self,
        counts: Mapping[str, ReadCounts],
        half_life: HalfLife | None,
        *,
        by_group: bool = False,
    ) -> FloatArray:
        """Return what all misses cost a second, by server and units, shape (n, UNITS + 1). By
        group, the shape is (GROUPS, n, UNITS + 1); see ``ReadCounts.misses``."""
        rows = [
            server.penalty_seconds
            * counts[server.name].misses(
                server.minimum_bytes + self._grid, half_life, by_group=by_group
            )
            for server in self.servers
        ]
        return np.stack(rows, axis=-2)

    def fills(self, counts: Mapping[str, ReadCounts]) -> FloatArray:
        """Return the units that the misses of the last step filled, shape (n, UNITS + 1)."""
        rows = [
            counts[server.name].filled_bytes(server.minimum_bytes + self._grid)
            for server in self.servers
        ]
        return np.stack(rows) / self.unit_bytes

    def hit_costs(self, counts: Mapping[str, ReadCounts], half_life: HalfLife | None) -> float:
        """Return what all reads cost a second, if every one hits."""
        return sum(
            server.hit_seconds * counts[server.name].reads(half_life) for server in self.servers
        )

    def units(self, sizes_bytes: Mapping[str, int]) -> FloatArray:
        """Return sizes as (parts of) units, within the bounds, shape (n,)."""
        sizes = np.array([sizes_bytes[server.name] for server in self.servers])
        return np.asarray(np.clip((sizes - self._minima) / self.unit_bytes, 0, self._most_units))

    def stretched(
        self, sizes_bytes: Mapping[str, int], kept_bytes: Mapping[str, int]
    ) -> FloatArray:
        """Return all units, or as many as the bounds allow, in proportion to these sizes, beside
        servers that keep what they have. Their shape is (n,)."""
        least = self._minima / self.unit_bytes
        most = least + self._most_units
        sizes = np.array([max(1, sizes_bytes[one.name]) for one in self.servers]) / self.unit_bytes
        for place, server in enumerate(self.servers):
            if (kept := kept_bytes.get(server.name)) is not None:
                least[place] = most[place] = np.clip(
                    kept / self.unit_bytes, least[place], most[place]
                )
        total = UNITS + float(self._minima.sum()) / self.unit_bytes
        low, high = 0.0, total / float(sizes.min())
        for _ in range(_HALVINGS):
            times = (low + high) / 2
            fits = np.clip(times * sizes, least, most).sum() <= total
            low, high = (times, high) if fits else (low, times)
        return np.asarray(np.clip(low * sizes, least, most) - self._minima / self.unit_bytes)

    def sizes_bytes(self, units: FloatArray) -> dict[str, int]:
        """Return the opposite of ``units``, by name."""
        # A little more than what it was before it became a float.
        sizes = self._minima + np.floor(units * self.unit_bytes + 1e-3).astype(np.int64)
        return {server.name: int(size) for server, size in zip(self.servers, sizes, strict=True)}

    def plan(self, miss_costs: FloatArray) -> FloatArray:
        """Return the units of the best division, shape (n,)."""
        problem = PartitionProblem(
            tuple(server.name for server in self.servers),
            tuple(self._minima.tolist()),
            self.unit_bytes,
            UNITS,
            self._limits,
            np.where(np.arange(UNITS + 1) <= self._limits[:, None], -miss_costs, -np.inf),
        )
        return LookAhead(problem, lagrangian_bound(problem)).solve().astype(np.float64)


def cost_of(units: FloatArray, miss_costs: FloatArray) -> float:
    """Return what a division, shape (n,), costs by ``VirtualPlanner.miss_costs``."""
    return float(at_units(units, miss_costs).sum())


def at_units(units: FloatArray, rows: FloatArray) -> FloatArray:
    """Return what each server's row over units, shape (n, UNITS + 1), says at its place, shape
    (n,)."""
    grid = np.arange(rows.shape[-1])
    return np.array([np.interp(u, grid, row) for u, row in zip(units, rows, strict=True)])
