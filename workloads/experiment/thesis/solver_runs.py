"""Both solvers on the same partition problems: time, and gap to the optimum."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from solver_lambda.solvers.partition_problem import PartitionProblem
from workloads.bench.solver.partition_instances import (
    MakeCurve,
    any_random_curve,
    curves_of_traces,
    exact_optimum,
    partition_problem,
)
from workloads.bench.solver.solver_verb import PLANNER, SOLVERS, UNITS
from workloads.experiment.study import Data, Scope

DIRICHLET, LOOK_AHEAD = "Dirichlet (Algorithm 8)", "LookAhead"
COMPARED = (DIRICHLET, LOOK_AHEAD, PLANNER)
PARTITIONS, QUICK_PARTITIONS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20), (2, 7, 20)
INSTANCES, QUICK_INSTANCES = 10, 2

Row = dict[str, Any]


def measure(scope: Scope) -> Data:
    """Measure all solvers on the same instances, in turn, on one thread."""
    kinds: dict[str, MakeCurve] = {}
    scope.progress("cutting curves from the traces", 0.0)
    if (from_traces := curves_of_traces(scope.traces)) is not None:
        kinds["traces"] = from_traces
    kinds["random"] = any_random_curve
    partitions, instances = (
        (QUICK_PARTITIONS, QUICK_INSTANCES) if scope.is_quick else (PARTITIONS, INSTANCES)
    )
    # What the first call of a solver takes is not the solver's.
    _solved(partition_problem(np.random.default_rng(0), 2, UNITS, any_random_curve))
    rows: list[Row] = []
    cells = [(seed, kind, count) for seed in scope.seeds for kind in kinds for count in partitions]
    for done, (seed, kind, count) in enumerate(cells):
        scope.progress(f"seed {seed}, {count} partitions", done / len(cells))
        problems = [
            partition_problem(np.random.default_rng((seed, count, n)), count, UNITS, kinds[kind])
            for n in range(instances)
        ]
        found = [_solved(problem) for problem in problems]
        rows += [
            {
                "seed": seed,
                "curves": kind,
                "partitions": count,
                "solver": solver,
                **{name: [one[solver][name] for one in found] for name in found[0][solver]},
            }
            for solver in COMPARED
        ]
    return {"units": UNITS, "instances": instances, "rows": rows}


def _solved(problem: PartitionProblem) -> dict[str, dict[str, float]]:
    """Measure by solver: seconds by the clock and of the processor, gap to the best access time."""
    best = exact_optimum(problem)
    found = {}
    for solver in COMPARED:
        processor, clock = time.process_time(), time.perf_counter()
        solution = SOLVERS[solver](problem)
        found[solver] = {
            "seconds": time.perf_counter() - clock,
            "processor_seconds": time.process_time() - processor,
            "gap_ratios": max(0.0, float((solution.value - best) / best)),
        }
    return found


def kinds_of(data: Data) -> list[str]:
    """List the kinds of curves that were measured."""
    return list(dict.fromkeys(row["curves"] for row in data["rows"]))


def partitions_of(data: Data) -> list[int]:
    """List the numbers of partitions."""
    return sorted({row["partitions"] for row in data["rows"]})


def values(data: Data, name: str, kind: str, partitions: int, solver: str) -> list[list[float]]:
    """A figure of each instance, of each seed."""
    return [
        row[name]
        for row in data["rows"]
        if (row["curves"], row["partitions"], row["solver"]) == (kind, partitions, solver)
    ]


def of_all_seeds(data: Data, name: str, kind: str, partitions: int, solver: str) -> list[float]:
    """Return a figure of each instance, of all seeds together."""
    return [value for one in values(data, name, kind, partitions, solver) for value in one]


def best_rules(data: Data, kind: str) -> list[int]:
    """Return for each seed the number of partitions with the smallest sum of mean gaps: up to it
    Algorithm 8 would have been used, above it LookAhead; 0: always LookAhead."""
    counts = partitions_of(data)
    seeds = len(values(data, "gap_ratios", kind, counts[0], DIRICHLET))
    rules = []
    for seed in range(seeds):
        gaps = {
            solver: [
                statistics.fmean(values(data, "gap_ratios", kind, count, solver)[seed])
                for count in counts
            ]
            for solver in (DIRICHLET, LOOK_AHEAD)
        }
        sums = {
            rule: sum(gaps[DIRICHLET][:few]) + sum(gaps[LOOK_AHEAD][few:])
            for few, rule in enumerate([0, *counts])
        }
        rules.append(min(sums, key=lambda rule: sums[rule]))
    return rules
