"""YCSB with our binding, against a real server; and what its study says of figures."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.workloads.test_demo_cleans_up import processes_with
from tests.workloads.test_experiments_end_cleanly import interrupted
from workloads.demo.half import run_half
from workloads.demo.scenario import demo_servers
from workloads.experiment.clients import ycsb
from workloads.experiment.clients.ycsb_node import Played, Run
from workloads.local_server import LocalServer, free_port
from workloads.lookaside import Tally
from workloads.ycsb import build
from workloads.ycsb.client import YcsbLoad, running_ycsb
from workloads.ycsb.draws import ycsb_draws

KEYS, READS, MEAN_SECONDS = 300, 4000, 0.05


@pytest.fixture
def server():
    port = free_port()
    with LocalServer({"port": port, "bind": "127.0.0.1"}) as server:
        yield server, port


needs_ycsb = pytest.mark.skipif(
    not shutil.which("mvn") or not shutil.which("javac"), reason="no Maven or JDK"
)


@needs_ycsb
def test_a_miss_costs_its_backend_and_is_filled(server, tmp_path: Path) -> None:
    running, port = server
    load = YcsbLoad(
        key_count=KEYS,
        value_bytes=70,
        request_count=READS,
        read_ratio=0.9,
        backend_latency_seconds=MEAN_SECONDS,
    )
    with running_ycsb(load, port, tmp_path / "ycsb.log") as client:
        client.wait()
    assert client.tally.requests + client.updates == READS
    assert client.updates == pytest.approx(READS / 10, rel=0.25)
    stats = running.client.info("stats")
    assert client.tally.hits == stats["keyspace_hits"]
    misses = client.tally.requests - client.tally.hits
    assert misses == stats["keyspace_misses"] > 0
    # Exponential: the standard error of the mean is the mean over the root of the number.
    assert client.tally.access_seconds > misses * MEAN_SECONDS * (1 - 5 / misses**0.5)
    key = running.client.randomkey()
    assert running.client.strlen(key) == 70
    percentiles = list(client.settled_seconds.values())
    assert percentiles == sorted(percentiles)
    assert client.summary["READ"]["Operations"] == client.tally.requests


@needs_ycsb
def test_our_draws_are_those_of_ycsb(server, tmp_path: Path) -> None:
    """Our hottest key is one of its five hottest, as the server's counter, which draws lots, has
    them; and as many keys are drawn, but for chance."""
    running, port = server
    running.client.config_set("maxmemory-policy", "allkeys-lfu")
    load = YcsbLoad(key_count=20_000, value_bytes=70, request_count=20_000)
    with running_ycsb(load, port, tmp_path / "ycsb.log") as client:
        client.wait()
    drawn = Counter(ycsb_draws(load).keys)
    keys = running.client.keys()
    assert all(key.startswith(b"user") for key in keys)
    assert len(keys) == pytest.approx(len(drawn), rel=0.05)
    by_heat = sorted(keys, key=lambda key: running.client.object("freq", key))
    assert drawn.most_common(1)[0][0] in by_heat[-5:]


@needs_ycsb
def test_it_drives_a_server_of_the_demonstration() -> None:
    one = demo_servers(1, 1.0, None, with_ycsb=True)[0]
    half = run_half("static", [one], 4 << 20, lambda _: nullcontext())
    tally = half.tallies[one.name]
    assert tally.requests == len(one.load) == 3000
    assert 0 < tally.hits < tally.requests


@needs_ycsb
def test_ctrl_c_ends_it() -> None:
    interrupted(
        ["ycsb"],
        lambda folder: any("site.ycsb" in line for line in processes_with(str(folder))),
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: command == "javac" or None)
    with pytest.raises(build.YcsbError, match="apt-get install maven"):
        build.ycsb_class_path()


def test_a_run_that_reads_one_application_more_often_has_the_same_mean() -> None:
    def played(asked: float, requests: int, seconds: float) -> Played:
        tally = Tally(requests, requests // 2, requests * seconds)
        return Played(tally, tally, {}, asked, asked, 1 << 20)

    def run(wide: int, narrow: int) -> Run:
        return Run({"wide": played(3000, wide, 0.04), "narrow": played(1000, narrow, 0.02)}, 0)

    for one in (run(580, 420), run(520, 480)):
        assert one.late_access_seconds == pytest.approx(0.035)
        assert one.late_hit_ratio == pytest.approx(0.5)


def figures(equal: float, spreds: float, moves: int = 1) -> ycsb.Data:
    def run(seconds: float) -> ycsb.Data:
        return {"access_seconds": seconds, "hit_ratio": 0.5, "moves": moves, "applications": {}}

    workload = {"equal": [run(equal)], "spreds": [run(spreds)]}
    return {"run_seconds": 9, "settle_seconds": 4, "seeds": [1], "workloads": {"C": workload}}


def test_a_gain_and_a_loss_are_told_as_such() -> None:
    gained, lost = figures(0.02, 0.015), figures(0.02, 0.021)
    assert "a change of −25.0 %" in ycsb.conclude(gained)
    assert not ycsb.missed(gained)
    assert "a change of +5.0 %" in ycsb.conclude(lost)
    assert "+5.0 %" in ycsb.missed(lost)[0]
    assert "no plan" not in ycsb.conclude(gained)
    assert "no plan moved memory" in ycsb.conclude(figures(0.02, 0.015, moves=0))
