"""A command that is given in a stranger's folder neither waits for a pipe nor reads without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.base.regular_file import open_regular
from sidecar.cli import main
from sidecar.state.node_lock import locked_by
from tests.sidecar.fixtures import WriteNode

PIPE, DEVICE = "pipe", "device"


def made(path: Path, kind: str) -> Path:
    path.unlink(missing_ok=True)
    if kind == PIPE:
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", [PIPE, DEVICE])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(made(tmp_path / "one", kind))


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
