"""The demonstration, from the command to its result: short, so that little is learned in it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from infra.deploy_local import CDK
from workloads.demo.command import LEAST_SECONDS
from workloads.demo.kept import kept_in_words
from workloads.local_server import BUILD

ROOT = Path(__file__).resolve().parents[2]
HALVES = {"static", "spreds"}


@pytest.fixture(scope="module")
def finished() -> tuple[str, dict[str, Any], str]:
    """What it printed, its result and its report."""
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
