"""A processor that others use as well."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from workloads.running_program import running_command

BUSY = [sys.executable, "-S", "-c", "while True: pass"]


@contextmanager
def busy_processor(process_id: int, others: int) -> Iterator[None]:
    """Bind a process to one processor, with ``others`` beside it that never rest."""
    processor = {min(os.sched_getaffinity(0))}
    before = os.sched_getaffinity(process_id)
    with ExitStack() as stack:
        os.sched_setaffinity(process_id, processor)
        stack.callback(os.sched_setaffinity, process_id, before)
        for _ in range(others):
            running = running_command(BUSY, Path(os.devnull), signal.SIGKILL)
            os.sched_setaffinity(stack.enter_context(running).pid, processor)
        yield
