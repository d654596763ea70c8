"""A trace in its own time: when what is due, and that a late request counts from then."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from workloads.__main__ import main
from workloads.load import Load
from workloads.local_server import LocalServer
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
