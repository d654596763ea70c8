"""A trace in its own time: when what is due, and that a late request counts from then.

The server whose clock the load drives, and what a replay into it counts.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from workloads.__main__ import main
from workloads.experiment import other_policies
from workloads.experiment.curve_cases import LEARNT_SHARE, WARM_SHARE, Case
from workloads.experiment.curve_prediction import SampledBinary, measure, working_set
from workloads.experiment.fast_replay import FastServer, replay
from workloads.experiment.fast_replay import Load as FastLoad
from workloads.load import Load
from workloads.local_server import BUILD, LocalServer, built, supported_servers
from workloads.lookaside import LookAsideClient
from workloads.replay_verb import LATE_SECONDS, due_seconds, timed_replay


def test_whole_seconds_are_spread_and_finer_times_are_kept() -> None:
    assert due_seconds(np.array([7.0, 7, 9, 9, 9, 9])).tolist() == [0, 0.5, 2, 2.25, 2.5, 2.75]
    assert due_seconds(np.array([1.0, 1.5, 1.5, 1.25])).tolist() == [0, 0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="the same time"):
        due_seconds(np.zeros(4))


def load_of(count: int) -> Load:
    return Load([b"%d" % key for key in range(count)], [40] * count, np.zeros(count), "")


def test_requests_go_out_at_their_times_and_not_before() -> None:
    due = np.arange(40) / 2
    with LocalServer() as server, LookAsideClient(server.url) as client:
        began = time.monotonic()
        timed = timed_replay(load_of(40), client, due, speed=100)
        assert time.monotonic() - began >= due[-1] / 100
        assert server.client.dbsize() == 40
    assert client.tally.requests == len(timed.seconds) == 40
    assert np.all(timed.behind_seconds >= 0)
    assert np.all(timed.seconds > timed.behind_seconds)


def test_while_the_server_hangs_time_goes_on() -> None:
    """Requests that were due meanwhile are late, each from its own time on."""
    due = np.arange(200) / 200
    with LocalServer() as server, LookAsideClient(server.url) as client:
        server.client.execute_command("CLIENT", "PAUSE", 500, "ALL")
        timed = timed_replay(load_of(200), client, due)
    # The first one was sent in time, and waited; the others that were due then, hardly in batches.
    assert timed.late == np.count_nonzero(timed.behind_seconds > LATE_SECONDS) > 10
    assert timed.behind_seconds[0] < timed.seconds[0]
    batch = timed.behind_seconds[1:20]
    assert np.diff(batch) == pytest.approx(-np.diff(due[1:20]))


def test_the_verb_tells_latency_and_lateness(tmp_path: Path, capsys) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{10 + row // 10},{row % 7},100\n" for row in range(50)))
    with LocalServer() as server:
        options = ["replay", server.url, "--trace", str(trace), "--speed", "20"]
        assert main([*options, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert main(options) == 0
        assert "requests were sent more than" in capsys.readouterr().out
        assert main(["replay", server.url, "--speed", "2"]) == 2
        trace.write_text("0,1,100\n0,2,100\n")
        assert main(options) == 2
        assert "the same time" in capsys.readouterr().err
    assert result["requests"] == 50
    assert result["trace_seconds"] == pytest.approx(4.9)
    assert result["seconds"] >= 4.9 / 20
    assert 0 < result["p50_ms"] <= result["p99_ms"]
    assert 0 <= result["late_requests"] <= 50


PATCHED = [
    BUILD / server.patched_binary
    for server in supported_servers().values()
    if server.patched_binary
]


@pytest.fixture(params=PATCHED, ids=lambda path: path.name)
def binary(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


def load(keys: list[int], ttl_seconds: float = 0.0) -> FastLoad:
    count = max(keys) + 1
    sizes = np.full(count, 100)
    return FastLoad("test", np.array(keys), sizes, np.full(count, ttl_seconds))


def seconds(server: FastServer) -> float:
    whole, microseconds = server.client.time()
    return float(whole + microseconds / 1e6)


def test_time_passes_as_the_load_says(binary: Path) -> None:
    with FastServer({}, binary) as server:
        started = seconds(server)
        assert seconds(server) == started
        server.advance(1.5)
        assert seconds(server) - started == pytest.approx(1.5, abs=1e-5)
        steps = []
        replay(server, load([1] * 1000), 400.0, lambda: steps.append(seconds(server)))
        assert steps[-1] - started == pytest.approx(1.5 + 1000 / 400, abs=1e-4)
        assert len(steps) == 25


@pytest.mark.parametrize("name", supported_servers())
def test_no_server_has_a_clock_of_its_own(name: str) -> None:
    """One that counts the processor's cycles would run its rounds of expiry at its own pace."""
    path = BUILD / supported_servers()[name].stock_binary
    if not path.exists():
        pytest.skip(f"{path} is not built")
    with FastServer({}, path) as server:
        assert server.client.info("server")["monotonic_clock"] == "POSIX clock_gettime"


def test_only_the_first_read_misses_until_the_ttl_is_over(binary: Path) -> None:
    with FastServer({}, binary) as server:
        replay(server, load([1, 2, 1, 2, 3] * 20, ttl_seconds=5), 100.0, lambda: None)
        stats = server.client.info("stats")
        assert (stats["keyspace_hits"], stats["keyspace_misses"]) == (97, 3)
        server.settle()
        assert server.client.dbsize() == 3
        server.settle()
        assert server.client.dbsize() == 0
        assert server.client.info("stats")["expired_keys"] == 3


@pytest.mark.parametrize("way", ["patch", "module"])
def test_a_server_that_holds_everything_predicts_its_own_misses(binary: Path, way: str) -> None:
    module = None
    if way == "module":
        binary, module = binary.with_name(f"{binary.name}-stock"), built("lib/spreds.so")
    random = np.random.default_rng(1)
    asked = load(random.integers(0, 2000, 16_000).tolist())
    chosen = SampledBinary("", binary, module)
    empty_bytes, full_bytes = working_set(asked, chosen)
    assert 100 * 2000 < full_bytes - empty_bytes < 400 * 2000
    sizes = [round(empty_bytes + share * (full_bytes - empty_bytes)) for share in (0.5, 3.0)]
    run = measure(Case("test"), asked, chosen, sizes, 1, 1, 8192)
    first = np.unique(asked.keys, return_index=True)[1]
    end = round((WARM_SHARE + LEARNT_SHARE) * 16_000)
    assert run.measured == np.count_nonzero(first >= end) / (16_000 - end)
    assert run.predicted[-1][1] == pytest.approx(run.learnt, abs=0.02)
    assert run.dropped == 0


def test_what_other_policies_would_bring_is_what_servers_under_them_have() -> None:
    """Half of the reads go in turn over more keys than fit: LRU holds none of them."""
    loop = other_policies.loop(40_000, 5_000, 1, with_zipf=True)
    stock = SampledBinary("redis", built("bin/redis-server"), None)
    empty, full = working_set(loop, stock)
    sizes = [round(empty + share * (full - empty)) for share in (0.25, 0.5)]
    runs = {
        policy: measure(Case("loop", policy), loop, stock, sizes, 0, 1, 8192)
        for policy in other_policies.POLICIES
    }
    for has, run in runs.items():
        told = {one.value: one for one in run.other_policies if one.value in runs}
        # Redis with LFU is simulated for its own curve, which another simulation would double.
        assert set(told) == set(runs) - {has}
        for other, one in told.items():
            came = runs[other].measured - run.measured
            said = one.miss_ratios[0] - run.predicted[-1][0]
            assert said == pytest.approx(came, abs=0.05 + one.error_ratio)
    # Or all of them could say that nothing changes.
    assert runs["allkeys-lfu"].measured < runs["allkeys-lru"].measured - 0.1
