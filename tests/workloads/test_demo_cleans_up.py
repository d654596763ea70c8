"""An interrupted demonstration leaves nothing behind: no process, no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from infra.deploy_local import CDK

ROOT = Path(__file__).resolve().parents[2]


def processes_with(text: str) -> list[str]:
    """Command lines of processes that have ``text`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:  # it ended, or is not ours
            continue
    return found


@pytest.mark.skipif(not CDK.exists(), reason="the CDK command is not installed")
@pytest.mark.parametrize(
    ("moment", "number"),
    [("starting the emulator", signal.SIGINT), ("first run", signal.SIGTERM)],
)
def test_interrupted(moment, number):
    # A short path: servers have Unix sockets in it.
    with tempfile.TemporaryDirectory(prefix="spreds-stop-") as folder:
        temporary = Path(folder, "tmp")
        temporary.mkdir()
        demo = subprocess.Popen(
            [sys.executable, "-m", "workloads", "demo", "--output", f"{folder}/out"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert demo.stderr is not None
            assert any(moment in line for line in demo.stderr)
            demo.send_signal(number)
            _, messages = demo.communicate(timeout=120)
        finally:
            demo.kill()
            demo.wait()
        assert demo.returncode == 128 + number, messages
        assert messages.endswith("demo: stopped, and cleaned up\n")
        assert "Traceback" not in messages
        assert processes_with(str(temporary)) == []
        assert list(temporary.iterdir()) == []
