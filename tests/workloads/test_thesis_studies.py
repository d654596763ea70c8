"""Figure 8.5: what follows from reads, and the loads of two applications.

Which rule between the two solvers the figures of Figure 8.3 speak for.
"""

from __future__ import annotations

import numpy as np
import pytest

from workloads.demo.half import requests_of
from workloads.experiment.gain.simulated_server import SimulatedServer
from workloads.experiment.thesis import solver_times, ten_hours
from workloads.experiment.thesis.solver_runs import COMPARED, DIRICHLET, LOOK_AHEAD, best_rules
from workloads.experiment.thesis.ten_hours_play import (
    BACKEND_SECONDS,
    BUDGET_BYTES,
    EQUAL_BYTES,
    SERVERS,
    STRIDE,
    best_fixed_bytes,
    loads,
)
from workloads.experiment.thesis.ten_hours_tables import (
    change_ratio,
    of_clients,
    of_reads,
    reads,
    thesis_recomputed,
)
from workloads.load import Load


def data_of(seconds: dict[str, float]) -> dict:
    """One seed, two hours: each way's clients of P1 wait so long in the second of them."""

    def way(wait: float) -> dict:
        hour = [[1000, 500, 100.0], [100, 40, 50.0]]
        late = [[1000, 500, wait], [100, 40, 50.0]]
        plans = {"plans": 2, "carried_out": 1, "reason": "optimal: a reason"}
        return {"hours": [hour, late], "sizes_bytes": [[EQUAL_BYTES] * 2] * 9, **plans}

    run = {
        "seed": 1,
        "loads": ["a", "b"],
        "best_bytes": [EQUAL_BYTES] * 2,
        "late_seconds": 0.0,
        "ways": {name: way(wait) for name, wait in seconds.items()},
    }
    return {"hours": 2, "hour_seconds": 8.0, "has_trace": True, "runs": [run]}


def test_the_thesis_hit_ratios_give_other_times_than_it_prints():
    before, after = (thesis_recomputed(column) for column in ("Redis", "SPREDS"))
    assert [round(seconds * 1e3, 1) for seconds in before] == [91.8, 491.2, 125.0]
    assert [round(seconds * 1e3, 1) for seconds in after] == [76.6, 518.4, 113.3]


def test_times_of_the_equation_and_of_clients():
    found = reads(data_of({"equal": 100.0})["runs"][0], "equal")
    assert found == [[2000, 1000, 200.0], [200, 80, 100.0]]
    assert of_clients(found) == pytest.approx([0.1, 0.5, 300 / 2200])
    assert of_reads(found)[:2] == pytest.approx([0.1001, 0.4 * 0.0002 + 0.6 * 0.8])


def test_a_change_is_of_all_hours_or_of_the_late_ones():
    run = data_of({"equal": 100.0, "cloud_last": 70.0})["runs"][0]
    assert change_ratio(run, "cloud_last", "equal") == pytest.approx(-30 / 300)
    assert change_ratio(run, "cloud_last", "equal", 1) == pytest.approx(-30 / 150)


def test_a_loss_is_told_as_one():
    worse = data_of({"equal": 100.0, "embedded_last": 130.0, "best": 100.0})
    assert "+10.0 % (embedded, the thesis' planning)" in ten_hours.conclude(worse)
    (missed,) = ten_hours.missed(worse)
    assert "a reason" in missed
    assert not ten_hours.missed(data_of({"equal": 100.0, "embedded_last": 90.0, "best": 90.0}))
    assert all(table.rows for table in ten_hours.tables(worse))


def test_loads_are_those_of_their_seed():
    keys = [b"%d" % number for number in range(61_200 // 10 * STRIDE + STRIDE)]
    first, again, other = (loads(seed, 1, keys) for seed in (1, 1, 2))
    assert len(first["P1"]) == 67_500
    assert len(first["P2"]) == 6_120
    assert first["P2"].keys[:2] == [b"1", b"%d" % (STRIDE + 1)]
    assert first["P1"].keys == again["P1"].keys != other["P1"].keys
    assert first["P2"].backend_seconds.mean() == pytest.approx(0.8, rel=0.1)
    assert "generated" in loads(1, 1, None)["P2"].description


def misses_seconds(asked: dict[str, Load], sizes_bytes: dict[str, int]) -> float:
    """Return what all misses take, the second part of (8.2), by playing exact LRU."""
    total = 0.0
    for server, load in asked.items():
        requests = requests_of(load)
        cache = SimulatedServer(1, requests.sizes_bytes, sizes_bytes[server])
        cache.read(np.concatenate(requests.cycles))
        total += cache.misses * BACKEND_SECONDS[server]
    return total


def test_the_best_fixed_sizes_are_the_best_that_playing_finds():
    asked = loads(1, 1, None)
    best = best_fixed_bytes(asked)
    assert sum(best.values()) <= BUDGET_BYTES
    least = misses_seconds(asked, best)
    for share in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        first = round(share * BUDGET_BYTES)
        others = dict(zip(SERVERS, (first, BUDGET_BYTES - first), strict=True))
        assert least <= 1.001 * misses_seconds(asked, others), share
    lopsided = {"P1": 2 << 20, "P2": BUDGET_BYTES - (2 << 20)}
    assert least < 0.99 * misses_seconds(asked, lopsided)  # sizes matter


def data_of_gaps(gaps: dict[str, dict[int, float]]) -> dict:
    """Make data of one seed and one instance."""
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
    crossing = data_of_gaps({DIRICHLET: {20: 0.02}, LOOK_AHEAD: {2: 0.01, 7: 0.01}})
    assert best_rules(crossing, "random") == [7]
    assert "up to 7 partitions on random curves" in solver_times.conclude(crossing)


def test_a_rule_that_never_or_always_takes_one_of_them():
    worse = data_of_gaps({DIRICHLET: {7: 0.01, 20: 0.02}})
    assert best_rules(worse, "random") == [0]
    assert "nowhere (equal at 2) on random curves" in solver_times.conclude(worse)
    assert best_rules(data_of_gaps({LOOK_AHEAD: {2: 0.01, 7: 0.01, 20: 0.02}}), "random") == [20]


def test_equal_solvers_are_told_as_equal():
    assert "equal at every number of partitions" in solver_times.conclude(data_of_gaps({}))


def test_a_certified_plan_that_misses_the_optimum_is_told():
    good = data_of_gaps({})
    assert not solver_times.missed(good)
    assert len(solver_times.missed(data_of_gaps({COMPARED[2]: {7: 0.01}}))) == 1
