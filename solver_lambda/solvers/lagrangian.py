"""The Lagrangian bound sets a price for each unit of memory, and so parts the servers' choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solver_lambda.documents.curve import FloatArray
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem

# A tangent's value counts as reached if it is missed by less, relative to the bound.
_ROUNDING = 1e-13
_MOST_ROUNDS = 200


class LagrangianBound(NamedTuple):
    """Holds the best upper bound of the optimum that one price for memory gives.

    With a price λ >= 0 for a unit, no split is worth more than Σ maxₖ(uᵢ(k) − λk) + λ·capacity:
    each server takes what is worth its price, and the capacity is sold. The λ with the least
    bound is where the upper concave hulls of all curves have used up the capacity.

    Attributes:
        price: λ, utility per unit.
        units: shape (n,), the least that attains each server's maximum. They sum to ``capacity``
            at most: where LookAhead arrives before a step no longer fits.
        tops: shape (n,), the maxima.
        value: the bound.
    """

    price: float
    units: IntArray
    tops: FloatArray
    value: float


def lagrangian_bound(problem: PartitionProblem) -> LagrangianBound:
    """Find the price by cutting planes.

    The bound is convex in λ and made of straight lines. Two lines are known, one where the
    servers take more than the capacity and one where they do not; where they meet is the next λ,
    until no other line passes above that point. A server's choice at any λ between lies between
    its choices at the two, so fewer and fewer points have to be looked at.
    """
    utilities, capacity = problem.utilities, problem.capacity
    servers, width = utilities.shape
    rows = np.arange(servers)
    many = utilities.argmax(axis=1)
    if many.sum() <= capacity:
        tops = utilities[rows, many]
        return LagrangianBound(0.0, many, tops, float(tops.sum()))
    few = np.zeros(servers, dtype=np.int64)
    steps = np.arange(width)
    for _ in range(_MOST_ROUNDS):
        value_few, value_many = utilities[rows, few].sum(), utilities[rows, many].sum()
        taken_few, taken_many = int(few.sum()), int(many.sum())
        price = float((value_many - value_few) / (taken_many - taken_few))
        units = few.copy()
        # One server after the other: its part of the grid stays in the processor's cache.
        for row in np.flatnonzero(few < many).tolist():
            part = slice(few[row], many[row] + 1)
            units[row] += (utilities[row, part] - price * steps[part]).argmax()
        tops = utilities[rows, units] - price * units
        taken = int(units.sum())
        met = value_few - price * taken_few
        if tops.sum() - met <= _ROUNDING * abs(met) or taken in (taken_few, taken_many):
            break
        if taken <= capacity:
            few = units
        else:
            many = units
    return LagrangianBound(price, few, tops, float(tops.sum()) + price * capacity)
