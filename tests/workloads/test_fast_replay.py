"""The server whose clock the load drives, and what a replay into it counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workloads.experiment.curve_cases import LEARNT_SHARE, WARM_SHARE, Case
from workloads.experiment.curve_prediction import SampledBinary, measure, working_set
from workloads.experiment.fast_replay import FastServer, Load, replay
from workloads.local_server import BUILD, built, supported_servers

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


def load(keys: list[int], ttl_seconds: float = 0.0) -> Load:
    count = max(keys) + 1
    sizes = np.full(count, 100)
    return Load("test", np.array(keys), sizes, np.full(count, ttl_seconds))


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
    with FastServer({}, built(supported_servers()[name].stock_binary)) as server:
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
