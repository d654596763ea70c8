"""The demonstration, from the command to its result: short, so that little is learned in it.

Which share of the possible gain the demonstration says that it kept.

An interrupted demonstration leaves nothing behind: no process, no file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.deploy_local import CDK
from workloads.demo.command import LEAST_SECONDS
from workloads.demo.half import HalfResult, Sample, allocated_bytes, kept_gain, kept_in_words
from workloads.demo.scenario import DemoServer
from workloads.load import zipf_load
from workloads.local_server import BUILD
from workloads.lookaside import Tally

ROOT = Path(__file__).resolve().parents[2]
HALVES = {"static", "spreds"}


@pytest.fixture(scope="module")
def finished() -> tuple[str, dict[str, Any], str]:
    """Return what it printed, its result and its report."""
    if not CDK.exists():
        pytest.skip("the CDK command is not installed")
    if not (BUILD / "bin/redis-server").exists():
        pytest.skip("build/bin/redis-server is not built")
    with tempfile.TemporaryDirectory(prefix="spreds-short-") as folder:
        demo = subprocess.run(
            [
                *(sys.executable, "-m", "workloads", "demo"),
                *("--seconds", str(LEAST_SECONDS), "--output", folder),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert demo.returncode == 0, demo.stderr
        result = json.loads(Path(folder, "result.json").read_text())
        return demo.stdout, result, Path(folder, "report.html").read_text()


def test_the_sum_of_maxmemory_never_exceeds_the_budget(finished):
    _, result, _ = finished
    assert result["max_total_maxmemory_bytes"] <= result["budget_bytes"]
    for half in HALVES:
        total = sum(server["maxmemory_bytes"][half] for server in result["servers"])
        assert 0 < total <= result["max_total_maxmemory_bytes"]


def test_both_halves_serve_the_same_requests(finished):
    _, result, _ = finished
    for server in result["servers"]:
        planned = round(server["rate_per_second"] * LEAST_SECONDS)
        assert server["requests"] == dict.fromkeys(HALVES, planned)


def test_plans_came_back_from_the_cloud(finished):
    _, result, _ = finished
    assert result["cycles"] >= 1


def test_the_mean_access_time_is_that_of_the_servers(finished):
    """Equation (8.2) of each, weighted by weight and requests; the servers' are in the table."""
    printed, result, report = finished
    for half in HALVES:
        weights = [server["weight"] * server["requests"][half] for server in result["servers"]]
        times = [server["eat_ms"][half] for server in result["servers"]]
        mean = sum(w * t for w, t in zip(weights, times, strict=True)) / sum(weights)
        assert result["mean_access_time_ms"][half] == pytest.approx(mean)
        assert result["late_mean_access_time_ms"][half] > 0
        assert f"{mean:.2f} ms" in printed
        assert f"{mean:.2f} ms" in report
    for server in result["servers"]:
        assert server["name"] in printed
        assert all(0 < ratio < 1 for ratio in server["hit_ratio"].values())


def test_it_tells_which_share_of_the_possible_gain_it_kept(finished):
    printed, result, report = finished
    kept = result["kept_gain"]
    assert 0 <= kept["possible_ms"] < result["mean_access_time_ms"]["static"]
    assert 0 <= kept["late_possible_ms"] < result["late_mean_access_time_ms"]["static"]
    assert kept_in_words(kept) in printed
    assert kept_in_words(kept) in report


BUDGET_BYTES = 6 << 20


def server(name: str, key_count: int) -> DemoServer:
    load = zipf_load(
        request_count=12_000,
        key_count=key_count,
        skew=0.6,
        mean_bytes=900,
        backend_latency_seconds=0.010,
        seed=1,
    )
    return DemoServer(name, 1.0, 0.010, 100.0, load)


def half(*seconds: float) -> HalfResult:
    """Make a half with two equal servers' mean access times in its first and second half."""
    tallies = [
        {name: Tally(requests, 0, total) for name in ("wide", "narrow")}
        for requests, total in ((2000, 2000 * seconds[0]), (4000, 2000 * sum(seconds)))
    ]
    return HalfResult([Sample(at, {}, {}, one) for at, one in zip((5, 10), tallies, strict=True)])


def test_what_was_saved_is_set_against_what_was_possible():
    servers = [server("wide", 3000), server("narrow", 100)]
    static = half(0.008, 0.006)
    nothing = kept_gain(servers, BUDGET_BYTES, static, static)
    whole, late = nothing["possible_ms"], nothing["late_possible_ms"]
    # What is read for the first time is missed in any size.
    assert 0 < whole < late < 10
    assert (nothing["kept_ratio"], nothing["late_kept_ratio"]) == (0, 0)
    # Half of what is possible in the second half, and nothing in the first.
    kept = kept_gain(servers, BUDGET_BYTES, static, half(0.008, 0.006 - late / 2000))
    assert kept["late_kept_ratio"] == pytest.approx(0.5)
    assert kept["kept_ratio"] == pytest.approx(late / 4 / whole)
    assert "50.0 % in the second half" in kept_in_words(kept)


def test_more_than_all_is_explained():
    def told(has_drawn_load: bool, late_kept_ratio: float) -> str:
        return kept_in_words(
            {
                "has_drawn_load": has_drawn_load,
                "kept_ratio": 0.9,
                "late_kept_ratio": late_kept_ratio,
            }
        )

    assert told(False, 0.9).endswith("90.0 % in the second half")
    assert "107.2 % in the second half; more than 100 %, for" in told(False, 1.072)
    assert "drawn as YCSB draws" in told(True, 1.072)


def test_where_nothing_could_be_gained_that_is_said():
    servers = [server("wide", 100), server("narrow", 100)]
    kept = kept_gain(servers, BUDGET_BYTES, half(0.008, 0.006), half(0.008, 0.006))
    assert kept["kept_ratio"] is None
    assert kept_in_words(kept) == "Other sizes than equal ones could have gained nothing"


def test_possible_gain_knows_how_the_allocator_rounds():
    sizes = np.array([1, 8, 9, 128, 129, 160, 161, 1024, 1025])
    assert allocated_bytes(sizes).tolist() == [1, 8, 10, 128, 160, 160, 192, 1024, 1280]


def processes_with(text: str) -> list[str]:
    """Command lines of processes that have ``text`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:  # it ended, or is not ours
            continue
    return found


@pytest.mark.skipif(not CDK.exists(), reason="the CDK command is not installed")
@pytest.mark.parametrize(
    ("moment", "number"), [("starting the emulator", signal.SIGINT), ("first run", signal.SIGTERM)]
)
def test_interrupted(moment, number):
    # A short path: servers have Unix sockets in it.
    with tempfile.TemporaryDirectory(prefix="spreds-stop-") as folder:
        temporary = Path(folder, "tmp")
        temporary.mkdir()
        demo = subprocess.Popen(
            [sys.executable, "-m", "workloads", "demo", "--output", f"{folder}/out"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert demo.stderr is not None
            assert any(moment in line for line in demo.stderr)
            demo.send_signal(number)
            _, messages = demo.communicate(timeout=120)
        finally:
            demo.kill()
            demo.wait()
        assert demo.returncode == 128 + number, messages
        assert messages.endswith("demo: stopped, and cleaned up\n")
        assert "Traceback" not in messages
        assert processes_with(str(temporary)) == []
        assert list(temporary.iterdir()) == []
