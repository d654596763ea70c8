"""Processes of ours, each ended with everything that it started.

Programs run as a user would run them, or forked from one that has imported what they need: of a
sidecar's start, that is three quarters. Some are deaf to a Ctrl-C in the terminal, which never
arrives between starting a process and noting that it must be stopped. What one takes of its
machine is read from /proc.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received: list[int] = []
_held: list[bool] = []


def unwind_when_interrupted() -> list[int]:
    """Make the first of SIGINT, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` from now on.

    Later ones are ignored, so that an impatient second Ctrl-C does not cut the cleaning up short.
    What was ignored from the start stays so: ``nohup`` means it. Returns a list that will hold the
    signal's number.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    return _received


def _interrupt(number: int, _frame: object) -> None:
    if not _received:
        _received.append(number)
        if not _held:
            raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What is done in here is finished first; short things.

    Signals reach the main thread alone: in others there is nothing to hold back.

    Raises:
        KeyboardInterrupt: at its end, if a signal came meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = len(_received)
    _held.append(True)
    try:
        yield
    finally:
        _held.pop()
    if len(_received) > before:
        raise KeyboardInterrupt


ROOT = Path(__file__).resolve().parent.parent
STOP_LIMIT_SECONDS = 20.0


def finished(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """A command that has come to its end, and what it said; ``options`` as ``subprocess.run`` has
    them. It runs in the clone, and may fail, unless they say otherwise."""
    options = {"cwd": ROOT, "check": False, **options}
    return subprocess.run(command, capture_output=True, text=True, **options)


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
    """Run any program as ``running_program`` runs ours."""
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


@contextmanager
def deaf_processes(
    work: Callable[..., object], arguments: Sequence[tuple[object, ...]]
) -> Iterator[None]:
    """Start a process for each of ``arguments``, to do ``work`` with them until the block ends."""
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=work, args=one, daemon=True) for one in arguments]
    try:
        for process in processes:
            start_deaf_to_ctrl_c(process)
        yield
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def start_deaf_to_ctrl_c(process: BaseProcess) -> None:
    """Start a process that never gets SIGINT: it is for us, who then end it.

    Raises:
        KeyboardInterrupt: after it, if a signal came meanwhile.
    """
    # Where the start of a process brings its tracker with it, that lets SIGINT through again.
    resource_tracker.ensure_running()
    with uninterrupted():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


_FORKS = multiprocessing.get_context("forkserver")
# One process, which runs nothing else, has imported these; each program is forked from it.
_FORKS.set_forkserver_preload(["sidecar.daemon", "sidecar.commands.run.run", __name__])


class ForkedProgram:
    """Runs ``program`` with ``arguments``, and has the part of ``Popen`` that its users need.

    Args:
        program: a function of a module, which gives the exit code.
        folder: where it is.
        output: a descriptor that what it says goes to.
        environment: all of it.
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
        umask: int = -1,
        open_files: int | None = None,
    ) -> None:
        with Connection(os.dup(output), readable=False) as said:  # which can be sent
            how = (program, arguments, folder, said, dict(environment), umask, open_files)
            self._process = _FORKS.Process(target=_run, args=how)
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; ``None`` while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the exit code. Raises TimeoutExpired: it still runs."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(str(self._process), seconds or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal; do nothing where it has ended."""
        if self.poll() is None:
            # It may be gone, and the server that forked it about to tell how it ended.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        self.send_signal(signal.SIGKILL)


def _run(
    program: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    folder: Path,
    said: Connection,
    environment: Mapping[str, str],
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
    sys.exit(program(arguments))


_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """``processor_seconds``: since it began, of all its threads."""

    processor_seconds: float
    rss_bytes: int
    threads: int
    descriptors: int


def open_files(pid: int) -> list[str]:
    """Return what each of its descriptors is of."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has just been closed
            found.append(str(descriptor.readlink()).partition("[")[0])
    return sorted(found)


def usage(pid: int) -> Usage:
    """Return what a running process uses. Raises OSError if it does not run."""
    folder = Path(f"/proc/{pid}")
    # After the program's name, which may have spaces: state is field 3, utime 14, stime 15.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line
    )
    return Usage(
        (int(fields[11]) + int(fields[12])) * _TICK_SECONDS,
        int(status["VmRSS"].split()[0]) << 10,
        int(status["Threads"]),
        len(os.listdir(folder / "fd")),
    )
