"""What befalls the sidecar's process."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from workloads.experiment.faults.rows.row import RowFailedError, Rows
from workloads.experiment.faults.stage.node import WAIT_SECONDS
from workloads.experiment.faults.stage.sightings import GAP_SECONDS
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for
from workloads.processes import finished

ROWS = Rows()

# Two plans between which each server gives a lot, or gets it.
SWAPS = ((5, 1, 3), (1, 5, 3))
TERMINATIONS = 8


def swap(stage: FaultStage) -> None:
    """Order the other one of the two."""
    now = tuple(stage.shares.values())
    stage.plan(*(SWAPS[1] if now == SWAPS[0] else SWAPS[0])[: len(stage.servers)])


def swap_and_wait(stage: FaultStage) -> None:
    """Swap, and wait until all is as planned."""
    swap(stage)
    stage.converge()


def _steps_of_a_swap(stage: FaultStage) -> list[str]:
    """Return what changes something outside the sidecar, from the order until all is as planned."""
    before = len(stage.sidecar.steps())
    stage.sidecar.end_at("before", 1_000_000)
    swap_and_wait(stage)
    stage.sidecar.disarm()
    lines = [line.split(None, 2) for line in stage.sidecar.steps()[before:]]
    return [words[2] for words in lines if words[0] == "step" and words[1] != "0"]


def _each_step(count: int) -> list[tuple[str, int]]:
    return [(when, number) for number in range(1, count + 1) for when in ("before", "after")]


def _some_steps(count: int) -> list[tuple[str, int]]:
    """Return steps in the midst of the transitions, where most can be half done."""
    return [("after", count // 2 - 1), ("before", count // 2 + 1), ("after", count // 2 + 2)]


@ROWS.add(
    "sidecar: killed at some steps",
    "the same at three steps in the midst of the transitions",
    _some_steps,
    quick=True,
)
@ROWS.add(
    "sidecar: killed at each step",
    "kill -9 before and after each CONFIG SET and each save of a swap; started again",
    _each_step,
)
def _kill_around(stage: FaultStage, pick: Callable[[int], Iterable[tuple[str, int]]]) -> str:
    stage.plan(*SWAPS[0])
    stage.converge()
    count = len(_steps_of_a_swap(stage))
    died: list[str] = []
    for when, wanted in pick(count):
        number = wanted
        # A swap may have fewer steps than the one that was counted: it shrinks in fewer portions.
        while not _dies_in_a_swap(stage, when, number) and number > 1:
            number //= 2
        died.append(f"{when} {number}")
    return f"died {len(died)} times: {', '.join(died)} of {count} steps"


def _dies_in_a_swap(stage: FaultStage, when: str, number: int) -> bool:
    """Whether the sidecar died at a step, and did not come to the end before; it is well again."""
    stage.sidecar.end_at(when, number)
    swap(stage)
    wait_for(lambda: not stage.sidecar.runs or stage.is_converged(), WAIT_SECONDS)
    died = not stage.sidecar.runs
    if died:
        stage.gaps.trouble("the sidecar is away")
        stage.sidecar.note_end()
    stage.recover()
    return died


def _begin_long_shrink(stage: FaultStage) -> None:
    """Begin a shrink that does not end while a client holds what cannot be evicted."""
    stage.plan(*SWAPS[0])
    stage.converge()
    stage.pin(0, 12)
    stage.plan(*SWAPS[1])
    first = stage.servers[0]
    if not wait_for(lambda: (first.shrink_knobs() or {}).get("hz") == "500", WAIT_SECONDS):
        raise RowFailedError("it did not come into a shrink")


@ROWS.add("sidecar: SIGTERM in a swap", "the same, twice", 2, says=("stopped:",), quick=True)
@ROWS.add(
    "sidecar: SIGTERM at random",
    "SIGTERM somewhere in a swap: exit code 0, no server left in a shrink; started again",
    TERMINATIONS,
    says=("stopped:",),
)
def _terminate(stage: FaultStage, times: int) -> str:
    chance = random.Random(1)
    for number in range(times):
        if number % 2 == 0:
            _begin_long_shrink(stage)
        else:
            swap(stage)
            stage.wait(chance.random() * 1.5)
        stage.gaps.trouble("the sidecar is away")
        if (code := stage.sidecar.end(signal.SIGTERM)) != 0:
            raise RowFailedError(f"it ended with {code}")
        for server in stage.servers:
            if server.shrink_knobs() != server.knobs:
                raise RowFailedError(f"{server.name} is left in a shrink: {server.shrink_knobs()}")
        stage.recover()
    return f"{times} times"


@ROWS.add(
    "sidecar: killed in a handover",
    "memory is handed over as it is filled (the default); killed three times on the way",
    options={"forecast": "competing"},
)
def _handover(stage: FaultStage) -> None:
    # It takes as long as the load takes to fill what is given.
    stage.most_cycles = 90
    swap(stage)
    for _ in range(3):
        stage.wait(2.5)
        stage.kill_sidecar()
        stage.start_sidecar()


@ROWS.add("sidecar: SIGSTOP", "SIGSTOP for 1.5 s three times around a swap", quick=True)
def _hang(stage: FaultStage) -> None:
    stage.wait(0.9)
    swap(stage)
    for _ in range(3):
        stage.wait(0.35)
        stage.hang_sidecar()
        stage.wait(1.5)
        stage.wake_sidecar()


@ROWS.add(
    "sidecar: hangs while a server restarts",
    "SIGSTOP; a server is killed and starts with 24 of 48 MiB; SIGCONT a second later",
    gap="the sidecar hangs",
    bound_seconds=1.0 + GAP_SECONDS,
    says=("restarted",),
)
def _restart_while_it_hangs(stage: FaultStage) -> None:
    stage.hang_sidecar()
    stage.kill_server(0)
    stage.start_server(0, 24)
    stage.wait(1.0)
    stage.wake_sidecar()


@ROWS.add(
    "sidecar: a second one, same state file",
    "a second sidecar with the same state file is refused, the first goes on",
    "state.json",
    "locked by",
)
@ROWS.add(
    "sidecar: a second one",
    "a second sidecar with a state file of its own is refused, the first goes on",
    "other.json",
    "controlled by",
)
def _second(stage: FaultStage, state_file: str, words: str) -> str:
    text = Path(stage.sidecar.file).read_text()
    text = text.replace(str(stage.sidecar.state_file), str(stage.folder / state_file))
    other = stage.folder / "other.toml"
    other.write_text(text.replace(f"{stage.folder}/samples", f"{stage.folder}/other-samples"))
    command = [sys.executable, "-m", "sidecar.cli", "run", str(other)]
    ended = finished(command, env=stage.sidecar.environment, timeout=WAIT_SECONDS)
    if ended.returncode == 0 or words not in ended.stderr:
        raise RowFailedError(f"it ended with {ended.returncode}: {ended.stderr[-500:]}")
    swap_and_wait(stage)
    return ended.stderr.strip().splitlines()[-1][-120:]
