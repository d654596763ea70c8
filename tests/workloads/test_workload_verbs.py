"""The verbs of ``python -m workloads``, as a user runs them.

A verb whose packages are not installed says so.

Where recorded traces are looked for, and what is said of a folder that is none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.traces.trace_reader import load_trace
from workloads.__main__ import VERBS, main
from workloads.arguments import ORM_BUSY, TRACES_FOLDER, TWITTER, add_traces, trace_file
from workloads.experiment.thesis.ten_hours_play import trace_keys
from workloads.local_server import LocalServer
from workloads.processes import finished
from workloads.table import text_table

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-m", "workloads", *map(str, arguments)], timeout=60)


def test_help_names_every_verb_and_nonsense_is_refused():
    helped = run("--help")
    assert helped.returncode == 0
    for verb in ("demo", "replay", "bench redis", "bench mrc", "bench engine", "experiment curves"):
        assert f"python -m workloads {verb}\n" in helped.stdout
    assert run("bench", "nothing").returncode == 2
    assert run("bench", "nothing").stdout == ""
    assert run("demo", "--help").returncode == 0


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_each_verb_has_its_help(verb, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*verb, "--help"])
    assert ended.value.code == 0
    assert f"usage: python -m workloads {' '.join(verb)} " in capsys.readouterr().out


def test_replay_reports_hits_and_access_time(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text("0,1,100\n0,2,100\n1,1,100\n1,1,100\n")
    with LocalServer() as server:
        done = run("replay", server.url, "--trace", trace, "--json", "--cache-latency", "1ms")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["requests"] == 4
        assert result["hits"] == 2
        assert server.client.strlen("1") == 99
        table = run("replay", server.url, "--requests", 500, "--rate", 100_000)
        assert "Zipf 0.99 over 10,000 keys" in table.stdout


def test_whole_plans_are_measured(tmp_path):
    found = tmp_path / "plans.json"
    few = ("--servers", 2, "--instances", 1, "--traces", tmp_path)
    done = run("bench", "plan", *few, "--json", found)
    assert done.returncode == 0, done.stderr
    rows = json.loads(found.read_text())
    assert {(row["curves"], row["settings"]) for row in rows} >= {("ramps", "default")}
    assert all(0 < row["memory_bytes"] < 1 << 27 and len(row["seconds"]) == 1 for row in rows)


def test_questions_over_a_made_up_fleet_are_timed():
    done = run("bench", "fleet", "--nodes", 2, "--plans", 3, "--json")
    found = json.loads(done.stdout)
    # Whether that is fast enough is the machine's matter.
    assert done.returncode == (0 if found["met"] else 1), done.stderr
    assert found["plans"] == 6
    assert list(found["runs"]) == ["first", "again 1", "again 2", "again 3"]
    assert all(seconds > 0 and peak > 1 << 20 for seconds, peak in found["runs"].values())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("unix:///nowhere/redis.sock",), 1, "unix:///nowhere/redis.sock"),
        (("unix:///nowhere/redis.sock", "--trace", "gone.csv"), 2, "gone.csv"),
        (("redis://localhost", "--requests", "0"), 2, "'0'"),
        (("redis://localhost", "--backend-latency", "soon"), 2, "'soon'"),
    ],
)
def test_replay_refuses_with_one_sentence(arguments, code, message):
    done = run("replay", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_table_aligns():
    assert text_table(["a", "b"], [["long", "1"], ["x", "20"]]).splitlines() == [
        "a      b",
        "----  --",
        "long   1",
        "x     20",
    ]


WITHOUT_NUMPY = """
import runpy, sys
sys.modules["numpy"] = None
runpy.run_module("workloads", run_name="__main__")
"""


def test_the_package_and_the_remedy_are_named() -> None:
    words = [sys.executable, "-c", WITHOUT_NUMPY, "experiment", "gain", "--help"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "the Python package 'numpy' is missing: run 'make setup'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", [TWITTER, "twitter/twitter_cluster52.csv"])
@pytest.mark.parametrize("in_its_place", [True, False])
def test_a_trace_is_found_by_each_of_its_names(name: str, in_its_place: bool, tmp_path: Path):
    place = tmp_path / (name if in_its_place else Path(name).name)
    place.parent.mkdir(exist_ok=True)
    place.touch()
    assert trace_file(tmp_path, TWITTER) == place
    assert trace_file(tmp_path, ORM_BUSY) == tmp_path / ORM_BUSY


def test_as_it_is_published_it_is_read(tmp_path: Path):
    lines = "# time, object, size, next_access_vtime\n0, 7, 737, 2\n0, 8, 248, 9\n1, 7, 737, 5\n"
    (tmp_path / "twitter_cluster52.csv").write_text(lines)
    path = trace_file(tmp_path, TWITTER)
    trace = load_trace(path)
    assert trace.keys.tolist() == [7, 8, 7]
    assert trace.sizes_bytes.tolist() == [737, 248, 737]
    assert trace_keys(path, 1) == [b"7", b"8", b"7"]


def test_what_is_given_has_to_be_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    parser = argparse.ArgumentParser()
    add_traces(parser, TWITTER, ORM_BUSY)
    assert parser.parse_args([]).traces == TRACES_FOLDER
    assert parser.parse_args(["--traces", str(tmp_path)]).traces == tmp_path
    with pytest.raises(SystemExit):
        parser.parse_args(["--traces", str(tmp_path / "nowhere")])
    assert "nowhere' is not a folder" in capsys.readouterr().err
    told = " ".join(parser.format_help().split())
    assert f"{TWITTER} or twitter/twitter_cluster52.csv, {ORM_BUSY}" in told
