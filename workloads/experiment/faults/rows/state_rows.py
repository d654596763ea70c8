"""What befalls the state file and its disk."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workloads.experiment.faults.rows.row import RowFailedError, Rows, RowSkippedError
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for

ROWS = Rows()

# Forms of the file that still tell how servers were before a shrink.
KNOWS_MORE = ("above the budget", "newer", "older")
UNREADABLE = "is unusable, starting without it"


@ROWS.add(
    "state file: a folder",
    "in place of the file there is a folder: it does not start, and says why",
    says=("is a directory",),
)
def _folder(stage: FaultStage) -> None:
    swap_and_wait(stage)
    stage.kill_sidecar()
    kept = stage.sidecar.state_file.with_name("kept")
    stage.sidecar.state_file.rename(kept)
    stage.sidecar.state_file.mkdir()
    stage.start_sidecar()
    if stage.sidecar.runs:
        raise RowFailedError("it runs all the same")
    stage.sidecar.state_file.rmdir()
    kept.rename(stage.sidecar.state_file)
    stage.recover()


@ROWS.add(
    "state file: unreadable",
    "kill -9; nobody may read the file; started again",
    says=(UNREADABLE,),
    options={"settings": {"hz": 10}},
)
def _unreadable(stage: FaultStage) -> None:
    if os.getuid() == 0:
        raise RowSkippedError("root may read every file")
    _with_state(stage, lambda path: path.chmod(0))


def _with_state(stage: FaultStage, change: Callable[[Path], None]) -> None:
    """The sidecar is killed in a shrink, its file is changed, and it starts again."""
    swap_and_wait(stage)
    stage.sidecar.end_at("after", 8)
    swap(stage)
    wait_for(lambda: not stage.sidecar.runs, 30.0)
    stage.kill_sidecar()
    change(stage.sidecar.state_file)
    stage.recover()


def _fields(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))


def _cut(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(4096))


def _huge(state: dict[str, Any]) -> None:
    state["last_cycle"] = 10**400
    state["targets_bytes"] = dict.fromkeys(state["targets_bytes"], 10**30)


def _above_budget(state: dict[str, Any]) -> None:
    state["targets_bytes"] = dict.fromkeys(state["targets_bytes"], 1 << 40)


def _of_others(state: dict[str, Any]) -> None:
    for key in ("targets_bytes", "changed_at_seconds", "replaced", "before_shrink", "first_bytes"):
        state[key] = {f"other-{name}": value for name, value in state[key].items()}


def _newer(state: dict[str, Any]) -> None:
    state["what_nobody_knows"] = {"version": 99}


def _older(state: dict[str, Any]) -> None:
    for key in ("control", "first_bytes", "before_shrink", "latencies"):
        state.pop(key)


def _far_cycles(state: dict[str, Any]) -> None:
    state["applied_cycle"] = state["last_cycle"] = 9_000_000_000_000_000


# Name, what is done, and what the log must have. Without a readable file it sets nothing until it
# is told to resume, which the stage does.
FORMS: dict[str, tuple[str, Callable[[Path], None], tuple[str, ...]]] = {
    "absent": ("is gone", lambda path: path.unlink(), ()),
    "empty": ("is empty", _empty, (UNREADABLE,)),
    "cut": ("ends in the middle", _cut, (UNREADABLE,)),
    "garbage": ("is garbage", _garbage, (UNREADABLE,)),
    "huge numbers": ("has numbers of 400 digits", lambda p: _fields(p, _huge), (UNREADABLE,)),
    "above the budget": ("has targets of a TiB", lambda p: _fields(p, _above_budget), ()),
    "of other servers": ("is of other servers", lambda p: _fields(p, _of_others), ()),
    "newer": ("has what a newer version may have", lambda p: _fields(p, _newer), ()),
    "older": ("has only what the oldest version had", lambda p: _fields(p, _older), ()),
    "far cycles": ("has cycles of the far future", lambda p: _fields(p, _far_cycles), ()),
}


def _run(*command: str) -> None:
    try:
        # In a session of its own: Ctrl-C is for us, who then unmount.
        subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        raise RowSkippedError(f"one may not mount here: {why}") from error


@contextmanager
def _small_disk() -> Iterator[Mapping[str, Any]]:
    """Mount a tmpfs for the state file."""
    folder = Path(tempfile.mkdtemp(prefix="spreds-disk-"))
    try:
        _run("mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(folder))
        try:
            yield {"state_file": folder / "state.json"}
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=False, start_new_session=True)
    finally:
        folder.rmdir()


@ROWS.add(
    "disk: full",
    "the disk of the state file is full in a shrink, and over a kill -9; then it is not",
    says=("cannot be written",),
    quick=True,
    around=_small_disk,
)
def _full_disk(stage: FaultStage) -> None:
    filler = stage.sidecar.state_file.with_name("filler")
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                if not file.write(b"x" * 4096):
                    break
            except OSError:
                break
    swap_and_wait(stage)
    swap(stage)
    stage.wait(1.0)
    stage.kill_sidecar()
    stage.recover()
    swap_and_wait(stage)
    filler.unlink()
    swap_and_wait(stage)


@ROWS.add(
    "disk: read only",
    "the disk of the state file becomes read-only for two plans, and is written again",
    says=("cannot be written",),
    around=_small_disk,
)
def _read_only_disk(stage: FaultStage) -> None:
    folder = stage.sidecar.state_file.parent

    # Over it: what the sidecar has open there cannot become read-only.
    _run("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder))
    try:
        swap_and_wait(stage)
        swap_and_wait(stage)
    finally:
        _run("umount", "-l", str(folder))
    swap_and_wait(stage)


for _name, (_does, _change, _says) in FORMS.items():
    ROWS.add(
        f"state file: {_name}",
        f"kill -9 in a shrink; the file {_does}; started again",
        _change,
        says=_says,
        # Where nothing tells how it was before, a server gets the usual settings after a shrink.
        options={} if _name in KNOWS_MORE else {"settings": {"hz": 10}},
    )(_with_state)
