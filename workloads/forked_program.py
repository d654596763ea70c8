"""A program of ours as a process of its own that need not import its libraries: of a sidecar's
start, that is three quarters."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
# One process, which runs nothing else, has imported these; each program is forked from it.
_FORKS.set_forkserver_preload(["sidecar.daemon", "sidecar.commands.run", __name__])


class ForkedProgram:
    """Runs ``program`` with ``arguments``, and has the part of ``Popen`` that its users need.

    Args:
        program: a function of a module, which gives the exit code.
        folder: where it is.
        output: a descriptor that what it says goes to.
        environment: all of it.
        user: run as this one, and not as our own (needs root).
        umask: -1: ours.
        open_files: its limit, if it is not ours.
    """

    def __init__(
        self,
        program: Callable[[Sequence[str]], int],
        arguments: Sequence[str],
        folder: Path,
        output: int,
        environment: Mapping[str, str],
        *,
        user: str | None = None,
        umask: int = -1,
        open_files: int | None = None,
    ) -> None:
        with Connection(os.dup(output), readable=False) as said:  # which can be sent
            how = (program, arguments, folder, said, dict(environment), user, umask, open_files)
            self._process = _FORKS.Process(target=_run, args=how)
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; ``None`` while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """The exit code. Raises TimeoutExpired: it still runs."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(str(self._process), seconds or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            # It may be gone, and the server that forked it about to tell how it ended.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(
    program: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    folder: Path,
    said: Connection,
    environment: Mapping[str, str],
    user: str | None,
    umask: int,
    open_files: int | None,
) -> None:
    os.setsid()
    os.chdir(folder)
    for number in (1, 2):
        os.dup2(said.fileno(), number)
    said.close()
    # The streams that were there remember what a file they wrote to.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    if open_files is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, most))
    if umask >= 0:
        os.umask(umask)
    if user is not None:
        os.setuid(pwd.getpwnam(user).pw_uid)
    sys.exit(program(arguments))
