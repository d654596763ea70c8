"""How fast the solvers are, and how far from the optimum: the thesis' Figure 8.3, and quality."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.solvers.partition_problem import PartitionProblem
from solver_lambda.solvers.solver import Solution, solve
from workloads.arguments import (
    add_figures,
    add_traces,
    positive,
    seed,
    whole_numbers,
    write_json,
)
from workloads.bench.solver.partition_instances import (
    TRACES,
    MakeCurve,
    NarrowingSearch,
    any_random_curve,
    curves_of_traces,
    exact_optimum,
    partition_problem,
)
from workloads.table import say, text_table

HELP = (
    "Processor time of each solver, and its gap to the exact optimum (on a grid of 65,536 units: "
    "to the proven bound), on random curves with cliffs and on curves cut from real traces. All "
    "solve the same instances in turn. The planner is what a node has: Algorithm 8 up to 7 "
    "servers, LookAhead above, and the certificate after either; the narrowing search is only "
    "measured. About 10 minutes. Exit code 1 if the planner missed an optimum on a grid where it "
    "promises it."
)
Solver = Callable[[PartitionProblem], Solution]


def _planned(planning: PlanningSettings) -> Solver:
    def run(problem: PartitionProblem) -> Solution:
        deadline_seconds = time.perf_counter() + planning.time_limit_seconds
        return solve(problem, planning, deadline_seconds=deadline_seconds)

    return run


def _narrowing(problem: PartitionProblem) -> Solution:
    units = NarrowingSearch().solve(problem)
    return Solution(units, problem.value(units), float("nan"), "narrowing")


PLANNER = "planner (certified)"
SOLVERS: dict[str, Solver] = {
    "Dirichlet (Algorithm 8)": _planned(PlanningSettings(method="dirichlet", certify=False)),
    "narrowing search": _narrowing,
    "LookAhead": _planned(PlanningSettings(method="hill_climbing", certify=False)),
    PLANNER: _planned(PlanningSettings(time_limit_seconds=30.0)),
}
EXACT = "dynamic programme"
UNITS = 1024
FINE_UNITS = 65_536
FINE_SERVERS = (6, 20)
# What counts as the optimum, relative: rounding of sums in another order.
SAME_RATIO = 1e-9
_SERVERS = (2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 50, 100, 300, 1000)
# The instances of a row keep the dynamic programme within about this time.
_SERVERS_TIMES_INSTANCES = 3000
_MOST_INSTANCES = 100
_QUICK_PART = 10
_TITLES = {"random": "random curves with cliffs", "traces": "curves cut from traces"}


class Row(NamedTuple):
    """Holds what was measured of one solver on one kind of instance.

    Attributes:
        seconds: of processor time, shape (instances,): all solvers run on one thread, and what
            else the machine does disturbs it less than the time by the clock.
        gap_ratios: shape (instances,), excess of the mean access time over the optimum's; over
            the proven bound where the optimum is not known.
    """

    curves: str
    servers: int
    units: int
    solver: str
    seconds: list[float]
    gap_ratios: list[float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="solve a tenth of the instances")
    parser.add_argument(
        "--servers",
        type=whole_numbers,
        default=_SERVERS,
        metavar="N,N",
        help="numbers of servers (default: %(default)s)",
    )
    parser.add_argument(
        "--instances", type=positive, help="how many to solve for each number of servers"
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the instances (default: 0)")
    add_traces(parser, *TRACES)
    add_figures(parser, "also draw them (.png, .svg)")


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1 if the planner missed an optimum."""
    kinds: dict[str, MakeCurve] = {"random": any_random_curve}
    from_traces = curves_of_traces(arguments.traces)
    if from_traces:
        kinds["traces"] = from_traces
    else:
        say(f"bench solver: no traces in {arguments.traces}, left out")
    rows = []
    for row in measure(kinds, arguments):
        rows.append(row)
        if row.solver == PLANNER:
            say(f"bench solver: {row.curves} curves, {row.servers} servers, {row.units} units")
    print(table(rows))
    missed = missed_optima(rows)
    print(f"\nThe planner missed {missed} of {known_optima(rows)} known optima.")
    write_json(arguments.json, as_json(rows))
    if arguments.picture:
        draw(rows, arguments.picture)
    return 1 if missed else 0


def measure(kinds: dict[str, MakeCurve], arguments: argparse.Namespace) -> Iterator[Row]:
    """Measure all rows: the usual grid with the optimum, then the fine one without."""
    for curves, make_curve in kinds.items():
        for servers in arguments.servers:
            problems = _problems(arguments, servers, UNITS, make_curve)
            yield from _compare(curves, servers, UNITS, problems, exact=True)
        for servers in FINE_SERVERS:
            if servers in arguments.servers:
                problems = _problems(arguments, servers, FINE_UNITS, make_curve)
                yield from _compare(curves, servers, FINE_UNITS, problems, exact=False)


def _problems(
    arguments: argparse.Namespace, servers: int, units: int, make_curve: MakeCurve
) -> Iterator[PartitionProblem]:
    instances = min(_MOST_INSTANCES, max(3, _SERVERS_TIMES_INSTANCES // servers))
    if arguments.quick:
        instances = max(2, instances // _QUICK_PART)
    for number in range(arguments.instances or instances):
        generator = np.random.default_rng((arguments.seed, servers, units, number))
        yield partition_problem(generator, servers, units, make_curve)


def _compare(
    curves: str, servers: int, units: int, problems: Iterator[PartitionProblem], *, exact: bool
) -> Iterator[Row]:
    names = [*SOLVERS, EXACT] if exact else list(SOLVERS)
    rows = {name: Row(curves, servers, units, name, [], []) for name in names}
    for problem in problems:
        solutions = {}
        for name, run_solver in SOLVERS.items():
            started = time.process_time()
            solutions[name] = run_solver(problem)
            rows[name].seconds.append(time.process_time() - started)
        default = solutions[PLANNER]
        best = default.value * (1 - default.gap_ratio)
        if exact:
            started = time.process_time()
            best = exact_optimum(problem)
            rows[EXACT].seconds.append(time.process_time() - started)
            rows[EXACT].gap_ratios.append(0.0)
        for name, solution in solutions.items():
            rows[name].gap_ratios.append((solution.value - best) / best)
    yield from rows.values()


def _default_on_exact_grids(rows: list[Row]) -> Iterator[float]:
    for row in rows:
        if row.solver == PLANNER and row.units == UNITS:
            yield from row.gap_ratios


def missed_optima(rows: list[Row]) -> int:
    """Instances on which the planner and the dynamic programme disagree."""
    return sum(abs(gap) > SAME_RATIO for gap in _default_on_exact_grids(rows))


def known_optima(rows: list[Row]) -> int:
    """Instances on which they were compared."""
    return sum(1 for _ in _default_on_exact_grids(rows))


def table(rows: list[Row]) -> str:
    """The rows, in milliseconds and per cent."""
    header = ["curves", "servers", "units", "solver", "instances"]
    header += ["CPU ms: median", "quartiles", "p99", "gap: mean", "median", "p95", "worst"]
    cells = []
    for row in rows:
        low, median, high, late = np.quantile(row.seconds, (0.25, 0.5, 0.75, 0.99)) * 1e3
        positive = np.maximum(row.gap_ratios, 0.0)
        gaps = (positive.mean(), *np.quantile(positive, (0.5, 0.95, 1.0)))
        cells.append(
            [
                row.curves,
                f"{row.servers}",
                f"{row.units:,}",
                row.solver,
                f"{len(row.seconds)}",
                f"{median:.2f}",
                f"{low:.2f}–{high:.2f}",
                f"{late:.2f}",
                *(f"{gap:.4%}" if gap > SAME_RATIO else "0" for gap in gaps),
            ]
        )
    return text_table(header, cells)


def as_json(rows: list[Row]) -> dict[str, Any]:
    """Return all numbers for JSON."""
    return {"rows": [row._asdict() for row in rows], "missed_optima": missed_optima(rows)}


def draw(rows: list[Row], path: Path) -> None:
    """Time (median and quartiles) and gap (mean, 5th to 95th percentile) over servers."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(row.curves for row in rows))
    size = (7 * len(kinds), 9)
    figure, axes = plt.subplots(2, len(kinds), figsize=size, squeeze=False, layout="constrained")
    for column, curves in enumerate(kinds):
        times, gaps = axes[0][column], axes[1][column]
        for solver in [*SOLVERS, EXACT]:
            found = [r for r in rows if (r.curves, r.solver, r.units) == (curves, solver, UNITS)]
            servers = [row.servers for row in found]
            seconds = np.array([np.quantile(r.seconds, (0.25, 0.5, 0.75)) for r in found]) * 1e3
            spread = np.abs(seconds[:, [0, 2]] - seconds[:, [1]]).T
            times.errorbar(servers, seconds[:, 1], spread, label=solver, marker="o", capsize=3)
            if solver != EXACT:
                shown = [np.maximum(row.gap_ratios, 0.0) * 100 for row in found]
                mean = np.array([gap.mean() for gap in shown])
                ends = np.array([np.quantile(gap, (0.05, 0.95)) for gap in shown])
                spread = np.maximum(np.abs(ends - mean[:, None]), 0.0).T
                gaps.errorbar(servers, mean, spread, label=solver, marker="o", capsize=3)
        times.set(title=f"{_TITLES[curves]}, {UNITS:,} units", yscale="log")
        times.set_ylabel("processor time, ms: median, quartiles")
        gaps.set(xlabel="servers", ylabel="gap to the optimum, %: mean, 5th to 95th percentile")
        gaps.set_yscale("symlog", linthresh=0.01)
        gaps.set_ylim(bottom=0)
        for place in (times, gaps):
            place.set_xscale("log")
            place.set_xticks(servers, [f"{number:,}" for number in servers])
            place.minorticks_off()
    # From 8 servers on the planner starts with LookAhead.
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path)
    plt.close(figure)
