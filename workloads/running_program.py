"""Programs, run as a user would run them, and ended with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from workloads.interruption import uninterrupted

ROOT = Path(__file__).resolve().parent.parent
STOP_LIMIT_SECONDS = 20.0


def running_program(
    command: list[str],
    log: Path,
    stopped_by: signal.Signals,
    *,
    environment: dict[str, str] | None = None,
    stdout: int | None = None,
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run one of our programs as a user would, in a process group of its own."""
    return running_command(
        [sys.executable, "-m", *command], log, stopped_by, environment=environment, stdout=stdout
    )


@contextmanager
def running_command(
    command: list[str],
    log: Path,
    stopped_by: signal.Signals,
    *,
    environment: dict[str, str] | None = None,
    stdout: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """The same, of any program."""
    with ExitStack() as stack:
        messages = stack.enter_context(log.open("wb"))
        with uninterrupted():
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=messages if stdout is None else stdout,
                stderr=messages,
                text=True,
                start_new_session=True,  # Ctrl-C is for us, who then stop it
            )
            stack.callback(_stop, process, stopped_by)
        yield process


def _stop(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """End a process that leads a group, and everything in the group."""
    # Another thread may wait for it just now: then it says that it runs, and is gone.
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(STOP_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()
