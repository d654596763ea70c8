"""Where recorded traces are looked for, and what is said of a folder that is none."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from sidecar.traces.trace_reader import load_trace
from workloads.experiment.thesis.ten_hours.loads import trace_keys
from workloads.shared_traces import ORM_BUSY, TRACES_FOLDER, TWITTER, add_traces, trace_file


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
