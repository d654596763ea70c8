"""The clients that overhead is measured with, on a real server; and what is said of figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.bench.sampling.slices import fill
from workloads.experiment.clients import overhead
from workloads.experiment.clients.overhead_rounds import (
    KEYS,
    METRICS,
    STATES,
    MixedLoad,
    RedisBenchmark,
    fill_mixed,
)
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
