"""Processes of ours that a Ctrl-C in the terminal does not reach."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess

from workloads.interruption import uninterrupted


@contextmanager
def deaf_processes(
    work: Callable[..., object], arguments: Sequence[tuple[object, ...]]
) -> Iterator[None]:
    """One for each of ``arguments``, which does ``work`` with them until the end of the block."""
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
