"""``spreds run`` as a process: without boto3, until a signal, leaving the servers in order."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config import node
from sidecar.config.node import SidecarConfig, load_config
from sidecar.control.history import read_history
from sidecar.daemon import Sidecar
from sidecar.state.control_state import ControlState
from sidecar.state.sidecar_state import ObservedLatency
from sidecar.state.state_store import StateStore, load_state
from tests.sidecar.actuated_node import fill
from tests.sidecar.fixtures import Servers, StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process, without_boto3
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

MB = 1 << 20
MORE = (
    '[cycle]\nmaximum_age = "500ms"\n[planning]\nminimum_gain_ratio = 0.0\n'
    '[controller]\nkind = "embedded"\nfolder = "documents"\n'
)


@pytest.fixture
def servers(start_server: StartServer) -> Servers:
    return {"a": start_server("12mb"), "b": start_server("12mb")}


@pytest.fixture
def path(write_node: WriteNode, servers: Servers) -> Path:
    return write_node(servers, budget="24mb", more=MORE)


def _knob(server: LocalServer, name: str) -> str:
    return str(server.client.config_get(name)[name])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_plans_without_boto3_and_stops_cleanly(
    path: Path, servers: Servers, number: int
) -> None:
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        assert _knob(servers["a"], "spreds-endpoint") != ""
        assert process.end(number) == 0
    for server in servers.values():
        assert _knob(server, "maxmemory-eviction-tenacity") == "10"
        assert _knob(server, "spreds-endpoint") == ""
    assert not any("Traceback" in line for line in process.lines)


def test_the_cycle_goes_on_counting_after_a_crash(path: Path) -> None:
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        process.end(signal.SIGKILL)
    before = load_state(path.parent / "state.json")
    assert before.applied_cycle > 0
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        process.end()
    assert load_state(path.parent / "state.json").applied_cycle > before.applied_cycle


def _made_a_folder(file: Path) -> bool:
    """Make a folder in the file's place; the sidecar may write the file again before."""
    file.unlink(missing_ok=True)
    with suppress(FileExistsError):
        file.mkdir()
    return file.is_dir()


def test_an_order_of_a_full_disk_is_on_file_soon_after_there_is_room(
    write_node: WriteNode, servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_node(servers, budget="24mb")  # the next observation is an hour away
    state, history = path.parent / "state.json", path.parent / "state.json.history"
    with sidecar_process(path) as process:
        wait_until(lambda: state.exists() and history.exists(), lambda: process.lines)
        for file in (state, history):
            wait_until(lambda file=file: _made_a_folder(file), lambda: process.lines)
        assert main(["pause", str(path)]) == 1
        assert "it cannot be written to the state file" in capsys.readouterr().out
        main(["status", str(path)])
        assert "the state file cannot be written" in capsys.readouterr().out
        for file in (state, history):
            file.rmdir()
        process.read_until("state.json is written again")
        assert load_state(state).control.pause is not None
        wait_until(
            lambda: "order" in {entry["kind"] for entry in read_history(history)},
            lambda: process.lines,
        )
        main(["status", str(path)])
        assert "the state file cannot be written" not in capsys.readouterr().out
        assert process.end() == 0


@pytest.mark.parametrize("state_file", ['state_file = "state.json"', ""])
def test_a_second_sidecar_of_a_node_is_refused_until_the_first_is_dead(
    path: Path, state_file: str
) -> None:
    path.write_text(path.read_text().replace('state_file = "state.json"', state_file))
    lock = path.parent / ("state.json.lock" if state_file else "samples.lock")
    with sidecar_process(path) as first:
        first.read_until("plan: cycle")
        with sidecar_process(path) as second:
            refusal = second.read_until("each server one sidecar only")
            assert str(lock) in refusal
            assert f"process id {first.process.pid}:" in refusal
            assert second.process.wait(30) == 1
            assert second.lines == [refusal]
        first.read_until("plan: cycle")
        first.end(signal.SIGKILL)
    with sidecar_process(path) as third:
        third.read_until("plan: cycle")
        assert third.end() == 0


def test_an_end_at_the_very_beginning_plans_nothing_for_servers_that_were_not_asked(
    path: Path,
) -> None:
    sidecar = Sidecar(load_config(path))
    sidecar.stop()
    sidecar.run()
    assert load_state(path.parent / "state.json").targets_bytes == {}


def test_a_transition_that_was_interrupted_goes_on(path: Path, servers: Servers) -> None:
    with StateStore(path.parent / "state.json").update() as interrupted:
        interrupted.targets_bytes = {"a": 8 * MB, "b": 16 * MB}
        interrupted.settled = False
        interrupted.control = ControlState(engaged=True)

    def are_there() -> bool:
        fill(servers["b"], 16)
        return [_knob(servers[name], "maxmemory") for name in "ab"] == [str(8 * MB), str(16 * MB)]

    with sidecar_process(path) as process:
        process.read_until("initial sizes: servers are on the way to their sizes")
        wait_until(are_there, lambda: process.lines)
        process.read_until("initial sizes: servers are at their sizes")
        assert process.end() == 0


def test_a_reload_with_a_mistake_keeps_the_old_configuration(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = path.read_text()
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        path.write_text(good.replace("[cycle]", "[cyle]"))
        os.kill(process.process.pid, signal.SIGHUP)
        assert "did you mean 'cycle'" in process.read_until("the reload was refused")
        path.write_text(good.replace("rate = 0.5", "rate = 0.25"))
        os.kill(process.process.pid, signal.SIGHUP)
        process.read_until("[sampling] changed, restart for that")
        main(["status", str(path)])
        assert "problem: the reload was refused, the file before" in capsys.readouterr().out
        path.write_text(good.replace("500ms", "400ms"))
        os.kill(process.process.pid, signal.SIGHUP)
        process.read_until("reloaded: cycle.maximum_age 500ms -> 400ms")
        process.read_until("plan: cycle")
        main(["status", str(path)])
        assert "problem: the reload" not in capsys.readouterr().out
        main(["history", str(path)])
        assert "the node's file was read again: cycle.maximum_age" in capsys.readouterr().out
        assert process.end() == 0


def hung_up_on_as_it_starts(arguments: Sequence[str]) -> int:
    """Send SIGHUP as it starts: a service manager's reload comes when it pleases."""
    load = node.load_config

    def load_and_hang_up(path: Path) -> SidecarConfig:
        node.load_config = load
        config = load(path)
        os.kill(os.getpid(), signal.SIGHUP)
        return config

    node.load_config = load_and_hang_up  # type: ignore[assignment]
    return without_boto3(arguments)


def test_a_reload_during_the_start_is_done_after_it(path: Path) -> None:
    with sidecar_process(path, hung_up_on_as_it_starts) as process:
        process.read_until("reloaded: ")
        process.read_until("plan: cycle")
        assert process.end() == 0


def test_whose_socket_is_gone_is_running_all_the_same(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = path.parent / "state.json.sock"
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        socket.unlink()
        assert main(["pause", str(path)]) == 1
        assert "the sidecar runs, but nobody listens at" in capsys.readouterr().err
        assert "is there again" in process.read_until("operators.socket")
        assert main(["pause", str(path)]) == 0
        assert process.end() == 0
    assert main(["pause", str(path)]) == 1
    assert "the sidecar is not running" in capsys.readouterr().err


def test_an_unlimited_server_that_does_not_evict_is_left_and_keeps_no_other_from_its_size(
    write_node: WriteNode, start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    boundless = start_server(0, **{"maxmemory-policy": "noeviction"})
    other = start_server("40mb")
    path = write_node({"a": boundless.url, "b": other.url}, budget="24mb")
    with sidecar_process(path) as process:
        wait_until(lambda: _knob(other, "maxmemory") == str(12 * MB), lambda: process.lines)
        main(["status", str(path)])
        assert "as it does not evict, nobody but you gives it one" in capsys.readouterr().out
        assert process.end() == 0
    assert _knob(boundless, "maxmemory") == "0"


def test_status_asks_the_servers(
    path: Path, servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        assert main(["status", str(path)]) == 0
        assert "total 24 MiB of 24 MiB" in capsys.readouterr().out
        assert process.end() == 0
    with StateStore(load_config(path).state_file).update() as state:
        state.latencies = {"a": ObservedLatency(0.08, "configured", 0.095, 0.75)}
    assert main(["status", str(path)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "the sidecar is not running" in printed
    assert "a: backend: 80 ms as configured (95 ms measured, which does not count;" in printed
    assert "25% of the misses were never filled" in printed
    servers["b"].client.config_set("maxmemory", 13 * MB)
    assert main(["status", str(path)]) == 1
    servers["b"].stop()
    capsys.readouterr()
    assert main(["status", "--json", str(path)]) == 1
    status = json.loads(capsys.readouterr().out)
    up, down = status["servers"]
    assert up["maxmemory_bytes"] == 12 * MB
    assert up["sampler"] == "patch"
    assert up["backend_latency"]["measured_backend_latency_seconds"] == 0.095
    assert down["error"]
