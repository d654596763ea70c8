"""A stage's own process ends with the command that started it, even by ``kill -9``."""

from __future__ import annotations

import ctypes
import shutil
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """The kernel sends SIGKILL when the thread that started us ends.

    Nothing happens where the C library has no ``prctl``: then only ``kill -9`` leaves us behind.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ending_with_parent() -> tuple[str, ...]:
    """A command that runs another one so; empty where util-linux' ``setpriv`` is missing."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
