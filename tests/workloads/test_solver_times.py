"""Which rule between the two solvers the figures of Figure 8.3 speak for."""

from __future__ import annotations

from workloads.experiment.thesis import solver_times
from workloads.experiment.thesis.solver_runs import COMPARED, DIRICHLET, LOOK_AHEAD, best_rules


def data_of(gaps: dict[str, dict[int, float]]) -> dict:
    """One seed, one instance."""
    return {
        "units": 1024,
        "instances": 1,
        "rows": [
            {
                "seed": 1,
                "curves": "random",
                "partitions": partitions,
                "solver": solver,
                "seconds": [0.02 if solver == DIRICHLET else 0.001],
                "processor_seconds": [0.01],
                "gap_ratios": [gaps.get(solver, {}).get(partitions, 0.0)],
            }
            for partitions in (2, 7, 20)
            for solver in COMPARED
        ],
    }


def test_the_rule_is_where_the_smaller_gap_changes_sides():
    crossing = data_of({DIRICHLET: {20: 0.02}, LOOK_AHEAD: {2: 0.01, 7: 0.01}})
    assert best_rules(crossing, "random") == [7]
    assert "up to 7 partitions on random curves" in solver_times.conclude(crossing)


def test_a_rule_that_never_or_always_takes_one_of_them():
    worse = data_of({DIRICHLET: {7: 0.01, 20: 0.02}})
    assert best_rules(worse, "random") == [0]
    assert "nowhere (equal at 2) on random curves" in solver_times.conclude(worse)
    assert best_rules(data_of({LOOK_AHEAD: {2: 0.01, 7: 0.01, 20: 0.02}}), "random") == [20]


def test_equal_solvers_are_told_as_equal():
    assert "equal at every number of partitions" in solver_times.conclude(data_of({}))


def test_a_certified_plan_that_misses_the_optimum_is_told():
    good = data_of({})
    assert not solver_times.missed(good)
    assert len(solver_times.missed(data_of({COMPARED[2]: {7: 0.01}}))) == 1
