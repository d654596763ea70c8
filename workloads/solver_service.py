"""The solver as a service (``python -m solver_lambda serve``), started and ended."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from workloads.running_program import running_program

HOST = "127.0.0.1"
START_SECONDS = 30.0
LOOK_SECONDS = 0.02


class SolverService(NamedTuple):
    """One in a process of its own; its log is a JSON line a plan."""

    port: int
    process_id: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"


@contextmanager
def running_service(
    log: Path,
    environment: dict[str, str] | None = None,
    arguments: Sequence[str] = ("--port", "0"),
) -> Iterator[SolverService]:
    """Start one, at a free port unless ``arguments`` say otherwise, and end it.

    Raises:
        RuntimeError: it did not start.
    """
    command = ["solver_lambda", "serve", *arguments]
    with running_program(command, log, signal.SIGTERM, environment=environment) as process:
        until = time.monotonic() + START_SECONDS
        while not (said := log.read_text()).endswith("\n"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the solver's service did not start: {said[-500:]}")
            time.sleep(LOOK_SECONDS)
        try:
            port = json.loads(said.splitlines()[0])["port"]
        except (ValueError, KeyError) as error:
            raise RuntimeError(f"the solver's service did not start: {said[-500:]}") from error
        yield SolverService(port, process.pid)
