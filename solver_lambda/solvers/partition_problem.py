"""Defines the partition problem as solvers see it: utilities over units of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PartitionProblem:
    """Asks to maximise the sum of ``utilities[i, k[i]]`` so that k sums to ``capacity`` at most.

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
        """Return the sum of utilities for ``units``, shape (n,)."""
        return float(self.utilities[np.arange(len(units)), units].sum())

    def with_least(self, units: IntArray) -> PartitionProblem:
        """Return the same problem, with ``units``, shape (n,), as the least that each server
        has."""
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
        """Return the units, shape (n,), that give these sizes; ``None`` if none do."""
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
