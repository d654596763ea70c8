"""``experiment gain`` as an analyst runs it, and the files that its mixes are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from solver_lambda.documents.reader import Fields
from workloads.__main__ import main
from workloads.experiment.gain.loads import MissingTraceError, read_load
from workloads.experiment.gain.mix import MIXES, QUICK, mix_files, read_mix

TINY = """
description = "a wide server beside a narrow one"
budget = "6mb"
cycles = 3

[[server]]
name = "wide"
backend_latency = "40ms"
phase = [{ requests = 3000, load = { kind = "zipf", keys = 5000, skew = 0.8, object = "900b" } }]

[[server]]
name = "narrow"
backend_latency = "20ms"
weight = 0.5
[[server.phase]]
requests = [1000, 2000]
load = { kind = "zipf", keys = 300, skew = 0.9, object = "400b" }
"""
DIVISIONS = [
    "equal",
    "static oracle",
    "oracle of each window",
    "by demand",
    "by working set",
    "one shared server",
    "climber",
    "by use",
    "annealed",
]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def gain(*arguments: object) -> int:
    return main(["experiment", "gain", *map(str, arguments)])


def test_a_mix_of_ones_own_from_the_file_to_figures_and_picture(tiny, tmp_path, capsys):
    figures, picture = tmp_path / "gain.json", tmp_path / "gain.svg"
    to = ("--json", figures, "--picture", picture, "--by-cycle")
    assert gain("--mix", tiny, "--salts", 2, *to) == 0
    printed = capsys.readouterr().out
    (result,) = json.loads(figures.read_text())
    assert (result["mix"], result["changes"]) == ("tiny", False)
    scores = result["scores"]
    assert [one["division"] for one in scores[: len(DIVISIONS)]] == DIVISIONS
    assert all(one["division"] in printed for one in scores)
    mine = scores[len(DIVISIONS) :]
    assert len(mine) == len({one["salt"] for one in mine}) == 2
    by_name = {one["division"]: one for one in scores}
    series = by_name["equal"]["cycles_seconds"]
    assert len(series) == 3
    assert f"\n3         {1e3 * series[2]:7.3f}" in printed
    assert by_name["equal"]["share"] == 0
    assert (by_name["equal"]["worth_ratio"], by_name["equal"]["lost_ratio"]) == (1.0, 0.0)
    assert by_name["static oracle"]["share"] == 1
    assert by_name["static oracle"]["loss_ratio"] < 0
    assert "\ntiny  " in printed
    assert picture.read_text().lstrip().startswith("<?xml")


def test_strict_ends_with_an_exit_code_of_its_own(tiny, capsys):
    # Nobody can halve the access time of this one.
    tiny.write_text(f"{TINY}\n[targets]\nloss_ratio = -0.5\n")
    assert gain("--mix", tiny, "--salts", 1) == 0
    assert gain("--mix", tiny, "--salts", 1, "--strict") == 3
    printed = capsys.readouterr().out
    assert "to be at most -50.00 %" in printed
    assert "0 of 1 mixes meet all targets" in printed


@pytest.mark.parametrize(
    ("old", "new", "key", "value"),
    [
        ('"6mb"', '"1mb"', "budget", "'1mb'"),
        ('"6mb"', '"much"', "budget", "'much'"),
        ("cycles = 3", "cycles = 1", "cycles", "1"),
        ("cycles = 3", "cycels = 3", "cycels", "did you mean 'cycles'"),
        (
            'description = "a wide server beside a narrow one"',
            "description = 3",
            "description",
            "3",
        ),
        ('name = "narrow"', 'name = "wide"', "server", "'wide'"),
        ('name = "narrow"', 'name = "two words"', "server[1].name", "'two words'"),
        ('"20ms"', '"100us"', "server[narrow].backend_latency", "'100us'"),
        ("weight = 0.5", "weight = -1", "server[narrow].weight", "-1"),
        ("requests = 3000", "requests = -5", "server[wide].phase[0].requests", "-5"),
        ("{ requests = 3000", "{ from = 2, requests = 3000", "server[wide].phase", "from = 1"),
        ('kind = "zipf", keys = 300', 'kind = "zopf", keys = 300', "load.kind", "'zopf'"),
        ("skew = 0.8, ", "", "server[wide].phase[0].load.skew", "missing"),
        ("cycles = 3", "targets = { shares = 1.0 }", "targets.shares", "did you mean 'share'"),
        ("cycles = 3", "targets = { moves = 0.5 }", "targets.moves", "0.5"),
        (
            'kind = "zipf", keys = 300, skew = 0.9',
            'kind = "trace", file = "gone.csv"',
            "server[narrow].phase[0].load.file",
            "'gone.csv'",
        ),
        (
            'kind = "zipf", keys = 300, skew = 0.9',
            'kind = "trace", file = "four.csv", first = 4',
            "server[narrow].phase[0].load.first",
            "not 4",
        ),
        (
            'kind = "zipf", keys = 300, skew = 0.9, object = "400b"',
            'kind = "trace", file = "four.csv"',
            "server[narrow].phase[0].load.object",
            "four.csv tells no sizes",
        ),
    ],
)
def test_a_wrong_mix_is_refused_with_one_sentence(tiny, capsys, old, new, key, value):
    tiny.with_name("four.csv").write_text("0,1,1\n" * 4)
    assert TINY.count(old) == 1
    tiny.write_text(TINY.replace(old, new))
    assert gain("--mix", tiny) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"experiment gain: {tiny}: ")
    assert key in line
    assert value in line


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.toml", None, "cannot be read"),
        ("a.toml", b"budget =", "is no TOML"),
        ("a.toml", b"\xff\xfe", "is no TOML"),
        (
            "a.toml",
            TINY.partition('[[server]]\nname = "narrow"')[0].encode(),
            "two servers or more",
        ),
    ],
)
def test_what_is_no_mix_is_refused_with_one_sentence(tmp_path, capsys, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert gain("--mix", path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"experiment gain: {path}: ")
    assert message in line


def test_a_picture_without_the_package_is_refused_before_the_work(
    tiny, tmp_path, capsys, monkeypatch
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert gain("--mix", tiny, "--picture", tmp_path / "a.svg") == 2
    captured = capsys.readouterr()
    assert "pip install matplotlib" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("path", sorted(MIXES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_bundled_mix_can_be_read(path):
    try:
        mix = read_mix(path)
    except MissingTraceError as error:
        pytest.skip(str(error))
    assert mix.description
    assert 2 <= len(mix.servers) <= 20


def test_reads_without_a_size_and_what_is_no_read_are_told(tmp_path, caplog):
    """Logs have the size 0 with a miss, which the first read of a key is."""
    rows = ["1,a,0,get", "1,b,0,get", "1,c,0,get", "2,a,0,get", "2,b,70,get", "3,a,90,get"]
    rows += ["4,a,10,get", "5,b,0,set"]
    (tmp_path / "t.csv").write_text("\n".join(["time,key,size,op", *rows, ""]))
    fields = Fields({"kind": "trace", "file": "t.csv"}, "mix")
    load = read_load(fields, [tmp_path])
    assert sorted(load.sizes_bytes(np.random.default_rng(1)).tolist()) == [70, 80, 90]
    assert "not played, since they are no reads: 1 of 'set'" in caplog.text
    assert "1 keys have no size: 80 bytes each, the median" in caplog.text


def test_mixes_whose_traces_are_missing_are_left_out_unless_they_are_named(tmp_path, capsys):
    mixes = mix_files(None, quick=False, traces=tmp_path)
    left_out = {path.stem for path in MIXES.glob("*.toml")} - {mix.name for mix in mixes.values()}
    assert left_out == {"phase"}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("experiment gain: without phase: ")
    assert str(tmp_path) in line
    with pytest.raises(MissingTraceError):
        mix_files(["phase"], quick=False, traces=tmp_path)
    assert [path.stem for path in mix_files(None, quick=True, traces=tmp_path)] == list(QUICK)


def test_the_mix_in_the_page_is_one(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "research" / "gain.md"
    path = tmp_path / "mix.toml"
    path.write_text(page.read_text().partition("```toml\n")[2].partition("```")[0])
    (tmp_path / "shop.csv").write_text("0,1,500\n")
    mix = read_mix(path)
    assert [server.requests(cycle=3) for server in mix.servers] == [4000, 15000]
    assert mix.targets.worst_cycle_ratio == 0.15
