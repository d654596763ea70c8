"""A command that is given in a stranger's folder neither waits for a pipe nor reads without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.base.regular_file import open_regular
from sidecar.cli import main
from sidecar.state.node_lock import locked_by
from tests.sidecar.fixtures import WriteNode

PIPE, DEVICE, FOLDER = "pipe", "device", "folder"


def made(path: Path, kind: str) -> Path:
    path.unlink(missing_ok=True)
    if kind == PIPE:
        os.mkfifo(path)
    elif kind == FOLDER:
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", [PIPE, DEVICE, FOLDER])
def test_what_is_no_regular_file_is_not_read_and_not_left_open(tmp_path: Path, kind: str) -> None:
    path, before = made(tmp_path / "one", kind), os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(path)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("kind", [PIPE, DEVICE])
@pytest.mark.parametrize("command", ["status", "history"])
def test_a_command_ends(
    write_node: WriteNode, capsys: pytest.CaptureFixture[str], command: str, kind: str
) -> None:
    path = write_node({"a": "redis://127.0.0.1:1"}, budget="24mb")
    for name in ("state.json", "state.json.history"):
        made(path.parent / name, kind)
    assert main([command, str(path)]) in (0, 1, 2)
    capsys.readouterr()


def test_of_a_long_lock_only_the_process_is_read(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("4711\n")
    assert locked_by(lock) == "4711"
    with lock.open("r+b") as file:
        file.truncate(1 << 40)
    assert locked_by(lock) == ""
