"""A mistake in the node's file, which the running sidecar has not taken, lets everybody ask it
and give it orders."""

from __future__ import annotations

import json

import pytest

from sidecar.cli import main
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until

# Command: its exit code, and how its answer begins.
AS_IT_RUNS = {"plan": (1, "last"), "explain": (0, "Now:"), "history": (0, "20")}


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ('"50ms"', '"soon"', "server[a].backend_latency must be a duration"),
        ('"50ms"', '"50ms', "not a TOML file"),
        ("[memory]", "[memory]\nbugdet = 1", "bugdet"),
    ],
)
def test_a_running_sidecar_is_asked_and_obeys(
    start_server: StartServer,
    write_node: WriteNode,
    capsys: pytest.CaptureFixture[str],
    right: str,
    wrong: str,
    words: str,
) -> None:
    path = write_node({"a": start_server("12mb"), "b": start_server("12mb")}, budget="24mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        path.write_text(path.read_text().replace(right, wrong, 1))
        assert main(["pause", str(path), "--why", "an incident"]) == 0
        said = capsys.readouterr()
        assert words in said.err
        assert "the sidecar that runs goes on with the file as it was" in said.err
        assert "nothing is set" in said.out
        assert main(["status", str(path)]) == 1
        said = capsys.readouterr()
        assert words in said.err
        assert "total 24 MiB of 24 MiB" in said.out
        assert "an incident" in said.out
        assert main(["status", str(path), "--json"]) == 1
        status = json.loads(capsys.readouterr().out)
        assert [one["maxmemory_bytes"] for one in status["servers"]] == [12 << 20] * 2
        assert status["within_budget"]
        for command in AS_IT_RUNS:
            code = main([command, str(path)])
            said = capsys.readouterr()
            assert words in said.err
            wanted, begin = AS_IT_RUNS[command]
            assert code == wanted
            assert said.out.startswith(begin)
        assert main(["explain", str(path), "a"]) == 2
        assert words in capsys.readouterr().err
        assert main(["resume", str(path), "nobody"]) == 1
        assert "nobody" in capsys.readouterr().err
        assert main(["resume", str(path)]) == 0
    assert main(["status", str(path)]) == 2
    assert words in capsys.readouterr().err
