"""A real server whose policy has no curve is told no figure that only a curve could give."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sidecar.cli import main
from sidecar.control.predicted_hits import has_curve, predicted_hit_ratios
from sidecar.control.series import Series
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from tests.sidecar.daemon.test_closed_loop import CYCLE, Load, wait_for
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from workloads.local_node import sidecar_in_thread
from workloads.local_server import BUILD

MB = 1 << 20
OF_A_CURVE = (
    "curve",
    "curve_error_ratio",
    "predicted_hit_ratio",
    "predicted_access_time_seconds",
    "recommended_hit_ratio",
    "marginal_gain_seconds_per_mebibyte",
)


@pytest.mark.parametrize("policy", ["volatile-ttl", "noeviction"])
def test_without_a_curve_no_command_tells_what_another_size_would_bring(
    write_node: WriteNode,
    start_server: StartServer,
    capsys: pytest.CaptureFixture[str],
    policy: str,
) -> None:
    other = start_server("12mb", **{"maxmemory-policy": policy})
    other.client.set("kept", "until tomorrow", ex=86_400)
    servers = {"other": other, "usual": start_server("12mb")}
    path = write_node(servers, budget="24mb", more=f'{CYCLE}[controller]\nkind = "embedded"\n')
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: sidecar.last_plan, sidecar)
        wait_for(lambda: sidecar.status()["servers"][1]["curve"], sidecar)
        assert main(["explain", str(path), "other"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert main(["explain", str(path), "usual"]) == 0
        usual = " ".join(capsys.readouterr().out.split())
        assert main(["status", "--json", str(path)]) == 0
        status = json.loads(capsys.readouterr().out)["sidecar"]["servers"]
    assert "It cannot be given another size now, because" in told
    assert "Its curve is not known" in told
    for words in ("One more MiB", "By its curve", "expected"):
        assert words not in told
    assert "By its curve" in usual
    figures = {key: status[0][key] for key in OF_A_CURVE}
    assert set(figures.values()) == {None}, figures
    assert status[1]["predicted_hit_ratio"] is not None


def test_an_idle_server_without_a_sampler_keeps_its_size_and_is_told_no_figure(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """What nobody has told of is not nothing: its keys are what it has, read or not."""
    stock = start_server("8mb", BUILD / "bin" / "redis-server-stock")
    while stock.client.info("memory")["used_memory"] < 7 * MB:
        stock.client.mset({f"{stock.client.dbsize()}-{place}": b"x" * 900 for place in range(500)})
    keys = stock.client.dbsize()
    read = [start_server("8mb") for _ in range(2)]
    urls = {"stock": stock.url, "a": read[0].url, "b": read[1].url}
    # The stock server sends no samples, so each cycle is as long as it may be.
    cycle = CYCLE.replace('"6s"', '"1s"')
    more = f'{cycle}[controller]\nkind = "embedded"\n'
    by_patch = 'backend_latency = "50ms"\nsampler = "patch"'
    path = write_node(urls, "24mb", memory='rss_wait = "0s"', more=more, server_keys=by_patch)
    with Load(read), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: sidecar.cycles >= 8 and sidecar.last_plan, sidecar)
        told = sidecar.status()["servers"][0]
        problems = " ".join(sidecar.status()["problems"])
    assert told["keep_reason"].startswith("no_sampler:")
    assert {told[key] for key in OF_A_CURVE} == {None}
    why = "stock is not sampled, for neither patch nor module is in it: plans leave its size alone"
    assert why in problems
    assert stock.client.config_get("maxmemory")["maxmemory"] == str(8 * MB)
    assert stock.client.dbsize() == keys


def test_a_server_that_is_held_and_has_no_sampler_has_no_curve_either() -> None:
    held = ServerObservation(
        *("a", 10 * MB, MB, 1.0, 0.0, 1e-4, 1e-2),
        MissRatioCurve(np.array([1.0 * MB]), np.array([0.0])),
        keep_reason="held: it was resized by hand",
    )
    sampled = replace(STATS, config={"spreds-endpoint": "", "spreds-secret": ""})
    assert has_curve(held, sampled)
    assert not has_curve(held, replace(sampled, config={}))


def test_a_curve_that_may_be_off_by_half_says_nothing() -> None:
    curve = MissRatioCurve(np.array([1.0 * MB]), np.array([0.1]))
    near = ServerObservation(
        "a", 10 * MB, MB, 1.0, 1000.0, 1e-4, 1e-2, curve, curve_error_ratio=0.4
    )
    assert has_curve(near, None)
    assert not has_curve(replace(near, curve_error_ratio=0.5), None)


def test_the_picture_over_time_predicts_nothing_by_a_curve_that_says_nothing() -> None:
    """It said for a minute that all reads miss."""
    curve = MissRatioCurve(np.array([1.0 * MB]), np.array([0.1]))
    known = ServerObservation("a", 10 * MB, MB, 1.0, 900.0, 1e-4, 1e-2, curve)
    guess = replace(known, name="b", curve_error_ratio=1.0)
    series = Series(60.0)
    for second in range(2):
        counts = {"keyspace_hits": 1_000 * second, "at_seconds": float(second)}
        sampled = replace(STATS, config={"spreds-endpoint": "", "spreds-secret": ""}, **counts)
        readings = {"a": sampled, "b": sampled}
        observation = Observation("n", 1, 1.0, 60.0, 20 * MB, (known, guess))
        predicted = predicted_hit_ratios(observation, readings, {})
        series.take_readings(float(second), readings, observation, predicted)
    assert predicted == {"a": pytest.approx(0.9)}
    table = series.table()
    assert table["servers"]["b"]["predicted_hit_ratio"] == [None, None]
    assert table["mean_access_time_seconds"][1] == pytest.approx(1e-4)
    assert table["predicted_mean_access_time_seconds"][1] is None
