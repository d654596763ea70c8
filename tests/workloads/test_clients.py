"""YCSB with our binding, against a real server; and what its study says of figures.

The look-aside client does what an obvious one does, and the server counts the same.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workloads.test_demo import processes_with
from tests.workloads.test_experiments_end_cleanly import interrupted
from workloads.demo.half import run_half
from workloads.demo.scenario import demo_servers
from workloads.experiment.clients import ycsb
from workloads.experiment.clients.ycsb_node import Played, Run
from workloads.load import Load, zipf_load
from workloads.local_server import LocalServer, free_port
from workloads.lookaside import LookAsideClient, ServerRefusedError, Tally, replay
from workloads.ycsb import client as ycsb_client
from workloads.ycsb.client import YcsbLoad, running_ycsb, ycsb_draws


@pytest.fixture(scope="module")
def server():
    with LocalServer({"maxmemory-policy": "allkeys-lru"}) as server:
        yield server


def naive_hits(keys: list[bytes]) -> int:
    """Count the hits of a cache without a limit: one request after the other."""
    cache: set[bytes] = set()
    hits = 0
    for key in keys:
        hits += key in cache
        cache.add(key)
    return hits


def make_load(keys: list[bytes], sizes_bytes: list[int], seconds: list[float]) -> Load:
    return Load(keys, sizes_bytes, np.array(seconds), "for a test")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.sampled_from("abcdefghijkl"), st.integers(0, 3000), st.floats(0, 9)),
        min_size=1,
        max_size=300,
    )
)
def test_tally_is_that_of_one_request_after_the_other(server, requests):
    keys, sizes, seconds = (list(part) for part in zip(*requests, strict=True))
    texts = [key.encode() for key in keys]
    server.client.flushall()
    server.client.config_resetstat()
    with LookAsideClient(server.url, cache_latency_seconds=0.5) as client:
        replay(make_load(texts, sizes, seconds), client)
        tally = client.tally
    assert tally.requests == len(requests)
    assert tally.hits == naive_hits(texts)
    info = server.client.info("stats")
    assert (info["keyspace_hits"], info["keyspace_misses"]) == (
        tally.hits,
        tally.requests - tally.hits,
    )
    first = {}
    for text, size, cost in zip(texts, sizes, seconds, strict=True):
        first.setdefault(text, (size, cost))
    assert tally.access_seconds == pytest.approx(
        tally.hits * 0.5 + sum(cost for _, cost in first.values())
    )
    for text, (size, _) in first.items():
        assert server.client.strlen(text) == max(1, size - len(text))


def test_large_values_and_ttl(server):
    server.client.flushall()
    with LookAsideClient(server.url, ttl_seconds=100) as client:
        replay(make_load([b"large", b"k", b"large"], [1 << 20, 2, 1 << 20], [1.0] * 3), client)
        assert client.tally.hits == 1
    assert server.client.strlen("large") == (1 << 20) - 5
    assert 99_000 < server.client.pttl("k") <= 100_000


def test_a_slept_miss_is_filled_only_when_its_backend_answers(server):
    server.client.flushall()
    with LookAsideClient(server.url, sleeps=True) as client:
        client.request([b"slow", b"slow", b"quick"], [10, 10, 10], [1000.0, 2000.0, 0.0])
        assert client.tally.hits == 0
        client.fill_due()
        client.request([b"slow", b"quick"], [10, 10], [1000.0, 0.0])
        assert client.tally.hits == 1
        assert server.client.exists("slow") == 0
        client.fill_due(now=float("inf"))
        client.request([b"slow"], [10], [0.0])
        assert client.tally.hits == 2
        client.finish()


def test_refusals_of_the_server_are_errors():
    with LocalServer({"maxmemory": "1mb", "maxmemory-policy": "noeviction"}) as server:
        with LookAsideClient(server.url) as client, pytest.raises(ServerRefusedError, match="OOM"):
            replay(make_load([b"a", b"b"], [1 << 20] * 2, [0.0] * 2), client)
        server.client.config_set("requirepass", "secret")
        with pytest.raises(ServerRefusedError, match="WRONGPASS"):
            LookAsideClient(f"{server.url}?password=wrong")
        with LookAsideClient(f"{server.url}?password=secret") as client:
            client.request([], [], [])


def test_a_zipf_load_has_its_popularities_and_is_reproducible():
    def make(seed: int) -> Load:
        return zipf_load(
            request_count=200_000,
            key_count=50,
            skew=0.9,
            mean_bytes=1000,
            backend_latency_seconds=0.02,
            seed=seed,
        )

    load, same, other = make(1), make(1), make(2)
    assert load.keys == same.keys
    assert load.sizes_bytes == same.sizes_bytes
    assert (load.backend_seconds == same.backend_seconds).all()
    assert load.keys != other.keys
    weights = np.arange(1, 51) ** -0.9
    counts = Counter(load.keys)
    for rank, probability in enumerate(weights / weights.sum()):
        spread = (probability / len(load)) ** 0.5
        assert counts[b"key:%d" % rank] / len(load) == pytest.approx(probability, abs=6 * spread)
    assert load.backend_seconds.mean() == pytest.approx(0.02, rel=0.02)
    sizes = dict(zip(load.keys, load.sizes_bytes, strict=True))
    assert all(sizes[k] == s for k, s in zip(load.keys, load.sizes_bytes, strict=True))


KEYS, READS, MEAN_SECONDS = 300, 4000, 0.05


@pytest.fixture
def ycsb_server():
    port = free_port()
    with LocalServer({"port": port, "bind": "127.0.0.1"}) as server:
        yield server, port


needs_ycsb = pytest.mark.skipif(
    not shutil.which("mvn") or not shutil.which("javac"), reason="no Maven or JDK"
)


@needs_ycsb
def test_a_miss_costs_its_backend_and_is_filled(ycsb_server, tmp_path: Path) -> None:
    running, port = ycsb_server
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
def test_our_draws_are_those_of_ycsb(ycsb_server, tmp_path: Path) -> None:
    """Our hottest key is one of its five hottest, as the server's counter, which draws lots, has
    them; and as many keys are drawn, but for chance."""
    running, port = ycsb_server
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
        ["ycsb"], lambda folder: any("site.ycsb" in line for line in processes_with(str(folder)))
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: command == "javac" or None)
    with pytest.raises(ycsb_client.YcsbError, match="apt-get install maven"):
        ycsb_client.ycsb_class_path()


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
