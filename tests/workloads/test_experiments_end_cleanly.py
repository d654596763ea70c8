"""Experiments that cannot go on end soon, say why, and leave nothing behind.

A process that Ctrl-C must not reach, also where it is the first that was started.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workloads.test_demo import processes_with
from workloads.__main__ import main
from workloads.experiment.shrink.clients import Clients, ClientsEndedError, running_clients
from workloads.local_server import LocalServer

STARTS_ONE = """
import multiprocessing, time
from pathlib import Path
from workloads.processes import start_deaf_to_ctrl_c

process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
start_deaf_to_ctrl_c(process)
print(Path(f"/proc/{process.pid}/status").read_text())
print(Path("/proc/self/status").read_text())
process.terminate()
"""


def test_the_first_process_is_deaf_and_who_starts_it_is_not() -> None:
    run = [sys.executable, "-c", STARTS_ONE]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    theirs, ours = (
        int(line.split()[1], 16) for line in said.splitlines() if line.startswith("SigBlk:")
    )
    bit = 1 << (signal.SIGINT - 1)
    assert theirs & bit
    assert not ours & bit


ROOT = Path(__file__).resolve().parents[2]


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """It came true before the process ended. A minute is longer than anything here takes."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def plays(temporary: Path) -> bool:
    """A stage's sidecar runs beside its servers."""
    return any(temporary.glob("spreds-faults-*/steps"))


def sends(_temporary: Path) -> bool:
    """Whether clients have their processes."""
    return any("spawn_main" in line for line in processes_with(str(_temporary)))


def interrupted(words: list[str], is_up: Callable[[Path], bool]) -> str:
    """An experiment whose terminal sends Ctrl-C once it is up; its messages.

    It has left nothing behind.
    """
    # A short path: servers have Unix sockets in it.
    with tempfile.TemporaryDirectory(prefix="spreds-stop-") as folder:
        temporary = Path(folder)
        experiment = subprocess.Popen(
            [sys.executable, "-m", "workloads", "experiment", *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": folder},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            until(lambda: is_up(temporary), experiment)
            # As a terminal does, to all processes of the group.
            os.killpg(experiment.pid, signal.SIGINT)
            _, messages = experiment.communicate(timeout=60)
        finally:
            experiment.kill()
            experiment.wait()
        assert experiment.returncode == 130, messages
        assert "Traceback" not in messages
        assert processes_with(folder) == []
        assert list(temporary.iterdir()) == []
        assert folder not in Path("/proc/mounts").read_text()
    return messages


@pytest.mark.parametrize(
    ("words", "is_up"),
    [
        (["faults", "--only", "server: restarts larger", "disk: full"], plays),
        (["shrink", "--size", "10", "--runs", "1", "--way", "paced"], sends),
        (["soak", "--seconds", "60"], sends),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_ctrl_c_in_a_terminal(words: list[str], is_up: Callable[[Path], bool]) -> None:
    assert "interrupted" in interrupted(words, is_up)


def wait_for_children() -> None:
    for process in multiprocessing.active_children():
        process.join()


def test_clients_that_die_are_said_and_not_waited_for() -> None:
    # Their first SET is refused.
    with LocalServer({"maxmemory": 1, "maxmemory-policy": "noeviction"}) as server:
        running = running_clients(Clients(1, None), server.socket, 10)
        with pytest.raises(ClientsEndedError, match="exit code 1"), running:
            wait_for_children()


@pytest.mark.parametrize(
    "words",
    [
        ["soak", "--seconds", "29"],
        ["soak", "--rate", "0"],
        ["soak", "--rate", "1.1"],
        ["shrink", "--runs", "0"],
        ["shrink", "--size", "9"],
        ["shrink", "--after", "0"],
    ],
)
def test_what_cannot_be_measured_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["experiment", *words])
    assert ended.value.code == 2
    assert f"argument {words[1]}: must be" in capsys.readouterr().err


def test_a_soak_whose_sidecar_ends_says_so_with_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workloads.experiment.soak.SERVER_MIB", 0)
    assert main(["experiment", "soak", "--seconds", "30"]) == 1
    said = capsys.readouterr().err
    assert "the sidecar ended with exit code" in said
    assert "the sidecar's log ends:" in said
    assert "budget" in said
