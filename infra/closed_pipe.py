"""A command whose reader stops early, as ``| head`` does, ends without a word."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

PIPE_CLOSED = 141  # what a shell says of a program that SIGPIPE ended


def exit_code(main: Callable[[], int]) -> int:
    """Return the exit code of ``main``, or PIPE_CLOSED if nobody reads its output any more."""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # At its end Python would try once more to write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
