"""``experiment real-gain``: a tiny mix on real servers, with a real sidecar.

Which targets a mix is judged by, and what is said of those that are missed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from workloads.__main__ import main
from workloads.experiment.gain.mix import Targets
from workloads.experiment.gain.report import Result, summary, told
from workloads.experiment.gain.score import Score, Verdict, judge, score
from workloads.experiment.gain.server_parts import BUCKET_BYTES
from workloads.experiment.gain.simulated_server import BASELINE_BYTES
from workloads.experiment.gain.simulation import Outcome
from workloads.experiment.real_gain import command
from workloads.experiment.real_gain.play import counted_bytes, memory_taken, node_settings
from workloads.local_server import LocalServer
from workloads.lookaside import LookAsideClient
from workloads.node_programs import NodeSettings

TINY = """
budget = "6mb"
cycles = 4

[[server]]
name = "wide"
backend_latency = "40ms"
phase = [{ requests = 4000, load = { kind = "zipf", keys = 5000, skew = 0.8, object = "900b" } }]

[[server]]
name = "narrow"
backend_latency = "20ms"
phase = [{ requests = 1000, load = { kind = "zipf", keys = 300, skew = 0.9, object = "400b" } }]
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def real_gain(*arguments: object) -> int:
    return main(["experiment", "real-gain", *map(str, arguments)])


def test_a_mix_is_played_for_real_and_simulated(tiny, tmp_path, capsys):
    figures, log = tmp_path / "gain.json", tmp_path / "sidecar.log"
    options = ("--cycle", "700ms", "--json", figures, "--log", log)
    assert real_gain("--mix", tiny, *options) == 0
    printed = capsys.readouterr().out
    runs = json.loads(figures.read_text())["tiny"]
    assert list(runs) == ["real", "simulated", command.ALIKE]
    rows = [line for line in printed.splitlines() if line.startswith("4 ")]
    for row, (way, one) in zip(rows, runs.items(), strict=True):
        sizes = "/".join(f"{size / (1 << 20):.1f}" for size in one["spreds_sizes_bytes"][3])
        assert way in row
        assert row.endswith(sizes)
    real, *_, alike = runs.values()
    # Nothing is evicted in the first cycle, so that misses are the keys asked for.
    assert real["equal_miss_ratios"][0] == pytest.approx(alike["equal_miss_ratios"][0], abs=0.01)
    assert len(real["spreds_sizes_bytes"]) == 4
    assert all(sum(sizes) <= 6 << 20 for sizes in real["spreds_sizes_bytes"])
    assert "MiB at most, of 6.0 MiB" in printed
    assert "observed: cycle" in log.read_text()


def test_a_sidecar_that_fails_is_told_of(tiny, capsys, monkeypatch):
    def unnamed(*arguments: object) -> NodeSettings:
        return replace(node_settings(*arguments), node="no name for a node")

    monkeypatch.setattr(command, "node_settings", unnamed)
    assert real_gain("--mix", tiny, "--cycle", "50ms") == 1
    assert "no name for a node" in capsys.readouterr().err.splitlines()[-1]


def test_a_mix_that_cannot_be_read_is_refused(tmp_path, capsys):
    assert real_gain("--mix", tmp_path / "gone.toml") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_what_keys_take_is_what_the_server_holds():
    sizes = np.linspace(50, 1500, 400).astype(np.uint32)
    with LocalServer() as server, LookAsideClient(server.url) as client:
        held = np.arange(0, 400, 2)
        client.request([b"%d" % key for key in held], sizes[held].tolist(), [0.0] * len(held))
        counted = counted_bytes(server.client.info("memory"))
        taken = memory_taken(server.client, sizes)
    table_bytes = 256 * BUCKET_BYTES
    of_keys = taken.weights[held].sum() + taken.beside_bytes + table_bytes
    assert BASELINE_BYTES + of_keys == pytest.approx(counted, rel=0.05)
    assert BASELINE_BYTES + taken.whole_weights[held].sum() == pytest.approx(counted, rel=0.05)
    assert np.all(np.diff(taken.weights) >= 0)


def test_no_key_is_evicted_for_the_questions():
    """An entry of each table, a header and its string; a name; a value of 105 bytes and four."""
    sizes = np.full(20_000, 110, np.uint32)
    settings = {"maxmemory": "3mb", "maxmemory-policy": "allkeys-lru"}
    with LocalServer(settings) as server, LookAsideClient(server.url, ttl_seconds=1e4) as client:
        for keys in np.array_split(np.arange(20_000), 200):
            client.request([b"%d" % key for key in keys], [110] * len(keys), [0.0] * len(keys))
        taken = memory_taken(server.client, sizes)
        evicted = server.client.info("stats")["evicted_keys"]
    assert evicted > 0
    # Meanwhile the cron may make the load's buffers smaller, two of 16 KiB.
    assert taken.weights[-1] == pytest.approx(24 + 24 + 16 + 8 + 112, abs=5)


def test_keys_that_are_gone_weigh_what_others_of_their_size_do():
    """A loop of large ones had pushed them out, or their TTL has passed: they weighed what the
    loop's keys do, or nothing but themselves, and equal shares were off by an eighth."""
    sizes = np.concatenate([np.full(500, 200), np.full(3000, 1500)]).astype(np.uint32)
    settings = {"maxmemory": "4mb", "maxmemory-policy": "allkeys-lru"}
    with LocalServer(settings) as server, LookAsideClient(server.url) as client:
        for keys in np.array_split(np.arange(len(sizes)), 100):
            client.request([b"%d" % key for key in keys], sizes[keys].tolist(), [0.0] * len(keys))
        gone = memory_taken(server.client, sizes)
    assert gone.weights[:500].mean() == pytest.approx(24 + 16 + 16 + 8 + 200, rel=0.1)
    with LocalServer() as server:
        empty = memory_taken(server.client, np.full(20_000, 110, np.uint32), expires=True)
    assert empty.weights[-1] == pytest.approx(24 + 24 + 16 + 8 + 112, abs=5)


EQUAL = Score("equal", "", 0.010, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, [], 0.0, 0.0, None)
STATIC = replace(EQUAL, division="static oracle", share=1.0, late_share=1.0, loss_ratio=-0.20)
CLIMBER = replace(EQUAL, division="climber", share=0.5, late_share=0.5, loss_ratio=-0.10)
GOOD = replace(STATIC, division="SPREDS", salt="a", moves=1, changes=9)


def missed(scores: list[Score], targets: Targets | None = None, changes: bool = False):
    verdicts = judge(targets or Targets(), changes, [EQUAL, STATIC, CLIMBER, *scores])
    return {one.target: round(one.missed_by, 6) for one in verdicts if one.missed_by}


def test_a_stationary_mix_is_judged_by_its_shares_at_the_worst_salt():
    worse = replace(GOOD, salt="b", share=0.85, late_share=0.96)
    assert missed([GOOD]) == {}
    assert missed([GOOD, worse]) == {"share": 0.05, "late_share": 0.01}
    verdicts = judge(Targets(), False, [EQUAL, STATIC, CLIMBER, worse, GOOD])
    assert {one.salt for one in verdicts if one.target == "share"} == {"b"}


def test_a_changing_mix_is_to_gain_more_than_climber_and_static_oracle():
    low = replace(GOOD, share=0.4, late_share=0.1, loss_ratio=-0.15)
    assert missed([GOOD], changes=True) == {}
    assert missed([low], changes=True) == {"gain_ratio": 0.05}
    assert missed([replace(GOOD, loss_ratio=-0.19999)], changes=True) == {}
    assert missed([replace(low, loss_ratio=-0.3)], changes=True) == {}


def test_moves_are_judged_where_the_mix_has_a_target_for_them():
    many = replace(GOOD, loss_ratio=0.001, moves=9)
    assert missed([many]) == {}
    assert missed([many], Targets(loss_ratio=0.0005, moves=2)) == {"loss_ratio": 0.0005, "moves": 7}


def test_where_there_is_nothing_to_gain_only_losses_are_judged():
    nothing = replace(GOOD, share=None, late_share=None, loss_ratio=0.001, worst_cycle_ratio=0.12)
    assert missed([nothing]) == {"worst_cycle_ratio": 0.02}


def test_what_is_missed_is_said_with_bound_and_salt():
    verdicts = [
        Verdict("share", 0.9, 0.85, "b", 0.05),
        Verdict("loss_ratio", 0.002, 0.0, "a", 0.0),
        Verdict("moves", 2, 9, "b", 7),
    ]
    result = Result("mix", "what it is", False, [EQUAL, GOOD], verdicts)
    met = replace(result, verdicts=verdicts[1:2])
    assert told(met).splitlines()[-1] == "all targets are met"
    assert told(result).splitlines()[-1] == (
        "MISSED: share 85.00 % with salt b, to be at least 90.00 %; "
        "MISSED: moves 9 with salt b, to be at most 2"
    )
    *_, first, second, last, _ = summary([result, met]).splitlines()
    assert first.endswith("share by 5.00 %; moves by 7")
    assert second.endswith("met")
    assert last == "1 of 2 mixes meet all targets"


@pytest.mark.parametrize("share", [None, 0.5])
def test_results_travel_as_json(share):
    result = Result("mix", "", True, [replace(GOOD, share=share)], [])
    assert result.to_json()["scores"][0]["share"] == share
    assert "gain_ratio" not in result.to_json()["scores"][0]


class Waited(Outcome):
    """All cycles take the same time."""

    def __init__(self, seconds: float) -> None:
        nothing = np.zeros((8, 2))
        self.__dict__.update(seconds=seconds, reads=nothing, misses=nothing)
        mix = SimpleNamespace(cycle_seconds=3600.0)
        self.__dict__.update(moves=0, changes=0, moved_bytes=0, mix=mix)

    def access_seconds(self, first: int = 0, last: int | None = None) -> float:
        return self.__dict__["seconds"]


@pytest.mark.parametrize(("static_ms", "share"), [(9.81, None), (9.7, 0.5)])
def test_there_is_no_share_of_a_gain_below_two_per_cent(static_ms, share):
    mine, equal, static = (Waited(ms / 1e3) for ms in ((10 + static_ms) / 2, 10.0, static_ms))
    one = score("SPREDS", mine, equal, static)
    assert one.share == one.late_share == (share and pytest.approx(share))
