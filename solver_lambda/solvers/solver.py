"""Solves a partition problem: the thesis' search, then the certificate."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.solvers.certificate import CertifiedSplit, Certifier
from solver_lambda.solvers.dirichlet import DirichletSearch
from solver_lambda.solvers.hill_climbing import LookAhead
from solver_lambda.solvers.lagrangian import lagrangian_bound
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem
from solver_lambda.solvers.spare_units import without_idle_units

# The thesis' rule: up to so many servers the Dirichlet search, above that hill climbing.
MOST_SERVERS_FOR_DIRICHLET = 7


class Solution(NamedTuple):
    """Holds the split that was found.

    Attributes:
        units: shape (n,); no server has units that do nothing for it.
        value: the sum of utilities.
        bound: no split has a greater value.
        method: whose split it is: ``dirichlet``, ``hill_climbing`` or ``certified``.
    """

    units: IntArray
    value: float
    bound: float
    method: str

    @property
    def gap_ratio(self) -> float:
        """See ``CertifiedSplit``."""
        return CertifiedSplit(self.units, self.value, self.bound).gap_ratio


def solve(
    problem: PartitionProblem,
    planning: PlanningSettings,
    *,
    deadline_seconds: float,
    enough_gap_ratio: float = 0.0,
) -> Solution:
    """Search, and certify unless ``planning.certify`` is false.

    The certificate's search for a better split is left out if the Lagrangian bound alone proves
    enough: the gap of what was found is ``enough_gap_ratio`` at most.

    ``deadline_seconds`` is on the clock of ``time.perf_counter``; when it has passed, the answer
    is the best split so far, at once. The gap is always given; of the bare search it is the gap to
    the Lagrangian bound.
    """
    method = planning.method
    if method == "auto":
        few = len(problem.names) <= MOST_SERVERS_FOR_DIRICHLET
        method = "dirichlet" if few else "hill_climbing"
    bound = lagrangian_bound(problem)
    search_deadline = deadline_seconds
    if planning.certify:
        # The other half is the certificate's, which may close a gap that the search leaves.
        search_deadline = (time.perf_counter() + deadline_seconds) / 2
    if method == "dirichlet":
        search = DirichletSearch(seed=planning.seed, deadline_seconds=search_deadline)
        if planning.certify:
            search = replace(search, rounds=search.rounds // 10, patience=search.patience // 10)
        units = search.solve(problem, enough=bound.value * (1 + planning.epsilon_ratio))
    else:
        units = LookAhead(problem, bound, deadline_seconds=search_deadline).solve()
    found = split = CertifiedSplit(units, problem.value(units), bound.value)
    if planning.certify and found.gap_ratio > enough_gap_ratio:
        split = Certifier(
            problem,
            bound,
            epsilon_ratio=planning.epsilon_ratio,
            deadline_seconds=deadline_seconds,
        ).certify(found)
    if split.value > found.value:
        method = "certified"
    units = without_idle_units(problem, split.units)
    return Solution(units, problem.value(units), split.bound, method)
