"""``spreds run`` as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sidecar.cli import main
from workloads.processes import ForkedProgram

ROOT = Path(__file__).parents[2]
Program = Callable[[Sequence[str]], int]


def with_boto3(arguments: Sequence[str]) -> int:
    """Verbose: otherwise a line that says the same in each cycle comes once."""
    return main(["run", *arguments, "--verbose"])


def without_boto3(arguments: Sequence[str]) -> int:
    """Run as on a machine where boto3 is not installed."""
    modules: dict[str, Any] = sys.modules
    modules["boto3"] = modules["botocore"] = None
    return with_boto3(arguments)


class Process:
    """A running sidecar and what it has logged."""

    def __init__(self, path: Path, program: Program) -> None:
        reader, writer = os.pipe()
        self.said = os.fdopen(reader)
        self.process = ForkedProgram(program, [str(path)], ROOT, writer, os.environ)
        os.close(writer)
        self.lines: list[str] = []

    def read_until(self, *words: str) -> str:
        """The log line that has all these words."""
        for line in self.said:
            self.lines.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError(f"no line with {words}: {self.lines}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        self.lines += self.said.read().splitlines()
        return self.process.wait(30)


@contextmanager
def sidecar_process(path: Path, program: Program = without_boto3) -> Iterator[Process]:
    """Ended at the end, however it goes."""
    made = Process(path, program)
    # Ends the test, by the end of the log, should the line that it waits for never come.
    guard = threading.Timer(180, made.process.kill)
    guard.start()
    try:
        yield made
    finally:
        guard.cancel()
        made.process.kill()
        made.process.wait()
        made.said.close()
