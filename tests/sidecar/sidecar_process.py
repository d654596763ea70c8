"""``spreds run`` as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Verbose: otherwise a line that says the same in each cycle comes once.
WITH_BOTO3 = """
import sys
from sidecar.cli import main
sys.exit(main(["run", sys.argv[1], "--verbose"]))
"""
# As on a machine where boto3 is not installed.
WITHOUT_BOTO3 = f"""
import sys
sys.modules["boto3"] = sys.modules["botocore"] = None
{WITH_BOTO3}
"""


class Process:
    """A running sidecar and what it has logged."""

    def __init__(self, path: Path, program: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def read_until(self, *words: str) -> str:
        """The log line that has all these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError(f"no line with {words}: {self.lines}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=30)
        self.lines += rest.splitlines()
        return self.process.returncode


@contextmanager
def sidecar_process(path: Path, program: str = WITHOUT_BOTO3) -> Iterator[Process]:
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
        made.process.communicate()
