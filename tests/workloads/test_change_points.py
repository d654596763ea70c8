"""The bounds of phases, in series whose bounds are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from workloads.experiment.papers.change_points import Bounds, find_ramp, find_spike
from workloads.experiment.papers.phase_runs import around, joined, missed
from workloads.experiment.shrink.clients import Latencies

SEEDS = range(20)


def series(
    levels: tuple[float, float], bounds: Bounds, count: int, noise: float, seed: int
) -> list[float]:
    places = np.arange(count)
    line = np.interp(places, [bounds.begin - 0.5, bounds.end - 0.5], levels)
    return (line + np.random.default_rng(seed).normal(0, noise, count)).tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("levels", [(0.8, 0.4), (0.4, 0.6)])
def test_a_ramp_is_found_within_two_windows(levels: tuple[float, float], seed: int) -> None:
    found = find_ramp(series(levels, Bounds(25, 60), 100, 0.01, seed))
    assert found is not None
    assert abs(found.begin - 25) <= 2
    assert abs(found.end - 60) <= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_is_a_ramp_without_length(seed: int) -> None:
    values = [0.8] * 30 + [0.4] * 50 + np.random.default_rng(seed).normal(0, 0.02, 80)
    found = find_ramp(values.tolist())
    assert found is not None
    assert abs(found.begin - 30) <= 1
    assert abs(found.end - 30) <= 1


@pytest.mark.parametrize("seed", range(100))
def test_no_change_is_no_phase(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 1, 100).tolist()
    assert find_ramp(noise) is None
    assert find_spike(noise, 20) is None


@pytest.mark.parametrize("values", [[], [1.0], [0.5] * 8, [0.5] * 100])
def test_too_little_or_the_same_all_over_is_no_phase(values: list[float]) -> None:
    assert find_ramp(values) is None
    assert find_spike(values, 20) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spike_is_found_within_two_windows(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0, 0.3, 200)
    values[80:85] += 5
    found = find_spike(values.tolist(), 50)
    assert found is not None
    assert abs(found.begin - 80) <= 2
    assert abs(found.end - 85) <= 2


def test_one_window_is_no_spike_however_high() -> None:
    values = np.random.default_rng(1).normal(0, 0.3, 200)
    values[80] = 1000
    assert find_spike(values.tolist(), 50) is None


def test_another_level_is_no_spike() -> None:
    values = np.random.default_rng(1).normal(0, 0.3, 200)
    values[80:] += 5
    assert find_spike(values.tolist(), 50) is None


def test_a_spike_elsewhere_does_not_widen_the_transition() -> None:
    assert joined([0.0, 5.0], [-0.1, 0.3]) == [-0.1, 5.0]
    assert joined([0.0, 5.0], [7.0, 7.2]) == [0.0, 5.0]
    assert joined(None, [1.0, 2.0]) == [1.0, 2.0]
    assert joined(None, None) == []


def test_a_step_takes_a_window() -> None:
    assert joined([0.0, 0.0], None) == [0.0, 0.1]
    assert joined([0.0, 0.0], [0.0, 0.04]) == [0.0, 0.1]
    assert joined([0.0, 0.0], [7.0, 7.2]) == [0.0, 0.1]


def test_the_phases_of_a_stall_with_another_hit_ratio_after_it() -> None:
    """5,000 requests a second for ten seconds; the change is ordered after the fourth."""
    random = np.random.default_rng(1)
    latencies = Latencies()
    latencies.at_seconds = at = 100 + np.arange(50_000) / 5_000
    stalled = (at >= 104) & (at < 104.2)
    latencies.seconds = np.where(stalled, 0.05, random.lognormal(math.log(1e-4), 0.3, len(at)))
    latencies.hits = random.random(len(at)) < np.where(at < 104, 0.8, 0.4)

    found = around(latencies, 100, 104, 110)

    for bounds, end in ((found["found"]["hits"], 0.0), (found["found"]["latency"], 0.2)):
        assert bounds == pytest.approx([0.0, end], abs=0.1)
    phases = found["phases"]
    assert phases["base"]["hit_ratio"] == pytest.approx(0.8, abs=0.02)
    assert phases["steady"]["hit_ratio"] == pytest.approx(0.4, abs=0.02)
    assert phases["transition"]["p50"] > 0.04 > 10 * phases["steady"]["p99"]
    assert found["is_over"]


# --- What a measurement of phases has to own up to.


def data_of(hits: list[float] | None, p50_seconds: float = 0.001) -> dict[str, Any]:
    """One paced shrink, whose hit ratio was found to move between these times."""
    change = {
        "found": {"hits": hits, "latency": None},
        "is_over": True,
        "phases": {"base": {"p50": p50_seconds}, "transition": None, "steady": None},
    }
    return {"objects": 1, "ways": {"paced": [{"shrink": change}]}}


@pytest.mark.parametrize("hits", [[0.0, 0.0], [-0.3, 5.0], [0.2, 0.9]])
def test_a_transition_that_the_change_made_is_not_missed(hits: list[float]) -> None:
    assert not missed(data_of(hits))


@pytest.mark.parametrize("hits", [[-0.1, 0.0], [-0.4, -0.2], [-0.9, 0.6]])
def test_one_that_lies_before_the_change_is(hits: list[float]) -> None:
    (sentence,) = missed(data_of(hits))
    assert "before the change" in sentence


def test_clients_behind_their_rate_are_told() -> None:
    (sentence,) = missed(data_of([0.0, 0.5], p50_seconds=1.556))
    assert "1,556.00 ms" in sentence
