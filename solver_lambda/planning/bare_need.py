"""What the bounds of memory need by themselves, when a size in force is out of them."""

from __future__ import annotations

from solver_lambda.documents.observation import Observation
from solver_lambda.planning.size_ranges import size_ranges
from solver_lambda.planning.step_limits import cycle_ranges
from solver_lambda.solvers.spare_units import in_proportion


def bare_need(observation: Observation) -> dict[str, int]:
    """The sizes in bytes, by name, that are nearest to those in force and keep the rules.

    Who is out of its bounds comes to the nearest one. What the budget lacks for that the others
    give, in proportion to what each has above its least size, or above the least that a cycle may
    lead to where the first is too much for somebody.

    Raises:
        InfeasibleError: as ``cycle_ranges``.
    """
    ranges = cycle_ranges(observation)
    sizes = {
        name: ranges[name].nearest_bytes(size) for name, size in observation.in_force_bytes.items()
    }
    lacking = max(0, sum(sizes.values()) - observation.budget_bytes)
    free = size_ranges(observation)
    most = [size - ranges[name].low_bytes for name, size in sizes.items()]
    given = in_proportion([size - free[name].low_bytes for name, size in sizes.items()], lacking)
    if any(part > limit for part, limit in zip(given, most, strict=True)):
        given = in_proportion(most, lacking)
    return {name: size - part for (name, size), part in zip(sizes.items(), given, strict=True)}
