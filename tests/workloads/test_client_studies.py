"""The clients that overhead is measured with, on a real server; and what is said of figures.

Workers in a closed loop, against real servers; and the tests of chapter 7's recipe.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workloads.bench.sampling.slices import fill
from workloads.experiment.clients import carlos, overhead
from workloads.experiment.clients.carlos_runs import METRICS as OF_CARLOS
from workloads.experiment.clients.carlos_runs import alike_mean_seconds, significance
from workloads.experiment.clients.closed_loop import Application, play_closed
from workloads.experiment.clients.overhead_rounds import (
    KEYS,
    METRICS,
    STATES,
    MixedLoad,
    RedisBenchmark,
    fill_mixed,
)
from workloads.load import Load
from workloads.local_server import BUILD, LocalServer

SECONDS = 0.05


@pytest.fixture(scope="module")
def server():
    with LocalServer() as server:
        fill(server)
        fill_mixed(server)
        yield server


def commands(server: LocalServer) -> dict[str, int]:
    found = server.client.info("commandstats")
    return {name: found.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("get", "set")}


@pytest.mark.parametrize("pattern", ["uniform", "Gaussian"])
def test_mixed_load_sets_one_of_eleven_and_never_misses(server, pattern, tmp_path: Path) -> None:
    load = MixedLoad(tmp_path, pattern, 4)
    misses = server.client.info("stats")["keyspace_misses"]
    before = commands(server)
    seen = load.run(server, SECONDS)
    made = {name: count - before[name] for name, count in commands(server).items()}
    assert sum(made.values()) == seen.operations
    assert made["set"] / seen.operations == pytest.approx(1 / 11, rel=0.2)
    assert server.client.info("stats")["keyspace_misses"] == misses
    assert server.client.dbsize() == 2 * KEYS
    assert 0 < seen.p50_seconds <= seen.p99_seconds


@pytest.mark.skipif(not (BUILD / "bin/redis-benchmark").exists(), reason="not built")
def test_redis_benchmark_is_read(server) -> None:
    before = commands(server)["set"]
    seen = RedisBenchmark("set", 16, 1e5).run(server, SECONDS)
    assert commands(server)["set"] - before >= seen.operations == 5000
    assert 0 < seen.p50_seconds <= seen.p99_seconds < 5
    assert server.client.dbsize() == 2 * KEYS


def figures(module: float) -> overhead.Data:
    """Ten rounds in which all is alike, but for the module's throughput."""

    def values(state: str) -> list[float]:
        return [100.0 * (module if state.startswith("module") else 1), *[1.0] * (len(METRICS) - 1)]

    return {"rounds": 10, "seen": {"load": {s.name: [values(s.name)] * 10 for s in STATES}}}


def test_a_loss_that_is_clear_of_the_null_is_told() -> None:
    assert not overhead.missed(figures(0.995))
    (told,) = overhead.missed(figures(0.9))
    assert "module at 1 % is 0.900" in told
    assert "with the module 0.90 and 1.00" in overhead.conclude(figures(0.9))


BACKEND_SECONDS = 0.01


def load_of(keys: list[int]) -> Load:
    texts = [b"%d" % key for key in keys]
    return Load(texts, [3000] * len(keys), np.full(len(keys), BACKEND_SECONDS), "")


def test_a_miss_waits_for_its_backend_and_a_hit_does_not() -> None:
    with LocalServer() as one, LocalServer() as other:
        applications = [
            Application(one.socket, 3, load_of(list(range(7)) * 20)),
            Application(other.socket, 1, load_of(list(range(100_000)))),
        ]
        answers = play_closed(applications, 2.0)
        # What the last workers asked for may not have been filled.
        missed = int(np.count_nonzero(~answers.hits & (answers.application == 1)))
        assert missed - 1 <= other.client.dbsize() <= missed
        assert one.client.dbsize() == 7
        assert one.client.strlen("0") == 2999
    first = answers.application == 0
    assert np.all(answers.seconds[~answers.hits] >= BACKEND_SECONDS)
    assert not answers.hits[~first].any()
    # Three workers may miss the same key at once, and never again.
    assert np.count_nonzero(~answers.hits[first]) <= 3 * 7
    assert np.count_nonzero(answers.hits[first]) > 100
    assert np.all(np.diff(answers.at_seconds) >= 0)


def figures_of_speed(speed_up: float, windows: int = 8) -> carlos.Data:
    random = np.random.default_rng(1)

    def way(factor: float) -> carlos.Data:
        rates = factor * random.normal(1000, 20, windows)
        return {
            "per_second": float(rates.mean()),
            "windows_per_second": rates.tolist(),
            "windows_mean_seconds": (32 / rates).tolist(),
        }

    runs = [
        {
            "workload": "Zipf",
            "size": "large",
            "seed": seed,
            "moves": 1,
            "ways": {"equal": way(1.0), "spreds": way(speed_up)},
        }
        for seed in range(5)
    ]
    return {"has_trace": True, "budgets_bytes": {"large": 1}, "runs": runs}


@pytest.mark.parametrize("metric", OF_CARLOS)
def test_an_effect_is_told_from_chance(metric: str) -> None:
    assert max(significance(figures_of_speed(1.05)["runs"], metric)) < 1e-4
    assert min(significance(figures_of_speed(1.0)["runs"], metric)) > 0.01


def test_who_asks_more_weighs_no_more() -> None:
    rates = {"equal": [600.0, 400.0], "spreds": [900.0, 300.0]}
    ways = {
        way: {"applications_per_second": of, "applications_mean_seconds": [0.01, 0.02]}
        for way, of in rates.items()
    }
    for way in ways:
        assert alike_mean_seconds([{"ways": ways}], way) == pytest.approx([0.014])


def test_what_is_slower_or_chance_is_missed() -> None:
    assert not carlos.missed(figures_of_speed(1.05))
    assert "SPREDS is slower" in carlos.missed(figures_of_speed(0.95))[0]
    assert "Zipf, large caches 0.9" in carlos.conclude(figures_of_speed(0.95))
    assert "(ANOVA over windows): 1 of 1." in carlos.conclude(figures_of_speed(0.95))
