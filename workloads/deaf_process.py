"""Processes of ours that a Ctrl-C in the terminal does not reach."""

from __future__ import annotations

import signal
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess

from workloads.interruption import uninterrupted


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
