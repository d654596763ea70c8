"""The sidecar of a stage: ``spreds run`` by the launcher, as a process, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.control.client import SidecarClient, SidecarSilentError
from sidecar.control.order import Order, OrderRefusedError
from workloads.experiment.faults.stage import launcher
from workloads.experiment.faults.stage.orders import CLOCK, ORDERS, PLAN, STEPS, SWITCH, TRICK
from workloads.experiment.faults.stage.waiting import wait_for
from workloads.processes import ROOT, ForkedProgram, open_files, usage

READY_LIMIT_SECONDS = 60.0
ENDS_LIMIT_SECONDS = 30.0


@dataclass(frozen=True)
class Resources:
    """Tells what the process uses; ``open_files`` says what each descriptor is of."""

    rss_bytes: int
    threads: int
    open_files: tuple[str, ...]

    @property
    def descriptors(self) -> int:
        return len(self.open_files)


@dataclass(frozen=True)
class MadePlan:
    """A line of the launcher: ``number`` of the order, how many servers were free to move."""

    number: int
    free: int
    decision: str
    sizes_bytes: dict[str, int]

    @classmethod
    def of(cls, line: str) -> MadePlan:
        """Read a plan from the words of its line."""
        _, number, free, decision, sizes = line.split()
        pairs = (size.split("=") for size in sizes.split(","))
        return cls(int(number), int(free), decision, {name: int(size) for name, size in pairs})


class SidecarProcess:
    """Runs at most one at a time; ``folder`` has its file, state, log and orders.

    Attributes:
        starts: so many times it was started.
        environment: that it has.
    """

    def __init__(
        self, folder: Path, state_file: Path | None, environment: Mapping[str, str]
    ) -> None:
        self.environment = {**os.environ, **environment, ORDERS: str(folder)}
        self.folder = folder
        self.state_file = state_file or folder / "state.json"
        self.log_file = folder / "sidecar.log"
        self.starts = 0
        self.process: ForkedProgram | None = None
        self._ran_seconds = 0.0
        self._started_at = 0.0

    @property
    def runs(self) -> bool:
        """Whether it runs, also while it hangs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the sidecar unless it runs; it may be long before it is ready."""
        if self.runs:
            return
        with self.log_file.open("ab") as log:
            self.process = ForkedProgram(
                launcher.main, [self.file], ROOT, log.fileno(), self.environment
            )
        self.starts += 1
        self._started_at = time.monotonic()

    @property
    def file(self) -> str:
        """Return the path of the node's file."""
        return str(self.folder / "node.toml")

    def wait_until_ready(self) -> bool:
        """Whether it is: its loop turns, or it has ended."""
        wait_for(lambda: not self.runs or self._loop_turns(), READY_LIMIT_SECONDS)
        return self.runs and self._loop_turns()

    def _loop_turns(self) -> bool:
        try:
            status = self.client().status()
            return bool(status["loop_at_seconds"] != status["started_at_seconds"])
        except (SidecarSilentError, KeyError):
            return False

    def client(self) -> SidecarClient:
        """Return a client that speaks to it."""
        return SidecarClient(self.state_file.with_name(f"{self.state_file.name}.sock"))

    def order(self, what: str, **fields: Any) -> str:
        """Return what was done, or why not."""
        try:
            return self.client().order(Order(what, "faults", **fields))
        except (SidecarSilentError, OrderRefusedError) as error:
            return f"refused: {error}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it runs."""
        if self.runs and self.process:
            self.process.send_signal(number)

    def end(self, number: signal.Signals) -> int | None:
        """End it so, and wait; return its exit code, ``None`` if it did not run."""
        if not self.runs or self.process is None:
            return None
        self.process.send_signal(number)
        try:
            if number != signal.SIGKILL:
                wait_for(lambda: not self.runs, ENDS_LIMIT_SECONDS)
                return self.process.wait(0)
            return self.process.wait(ENDS_LIMIT_SECONDS)
        finally:
            self.note_end()

    def note_end(self) -> None:
        """Kill the process if it still runs, and count how long it ran."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._ran_seconds += time.monotonic() - self._started_at

    def resources(self) -> Resources:
        """Return what it uses now. Raises OSError if it does not run."""
        assert self.process is not None
        now = usage(self.process.pid)
        return Resources(now.rss_bytes, now.threads, tuple(open_files(self.process.pid)))

    def order_plan(self, number: int, shares: dict[str, int]) -> None:
        """Give the next plans these sizes."""
        text = json.dumps({"number": number, "shares": shares})
        half = self.folder / f"{PLAN}.half"
        half.write_text(text)
        half.replace(self.folder / PLAN)

    def end_at(self, when: str, step: int) -> None:
        """Let it end ``before`` or ``after`` a step, counted from 1 from now on."""
        half = self.folder / f"{SWITCH}.half"
        half.write_text(f"{when} {step} {time.monotonic_ns()}")
        half.replace(self.folder / SWITCH)

    def disarm(self) -> None:
        """Let it not end at any step."""
        (self.folder / SWITCH).unlink(missing_ok=True)

    def trick(self, words: str) -> None:
        """Play a trick on the next plan."""
        (self.folder / TRICK).write_text(words)

    def set_clock(self, offset_seconds: float) -> None:
        """Make it read ``time.time`` so far off."""
        (self.folder / CLOCK).write_text(str(offset_seconds))
        self.send(signal.SIGUSR1)

    def steps(self) -> list[str]:
        """Return all lines of the launcher, without their times."""
        file = self.folder / STEPS
        text = file.read_text() if file.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [line.partition(" ")[2] for line in lines]

    def plans(self) -> list[MadePlan]:
        """Return the plans that were made, in order."""
        return [MadePlan.of(line) for line in self.steps() if line.startswith("plan ")]

    def log(self) -> str:
        """Return all that it said."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_bytes_per_second(self, a_start_bytes: int) -> float:
        """While it ran, without what each start may say."""
        now = time.monotonic()
        ran = self._ran_seconds + (now - self._started_at if self.runs else 0.0)
        said = max(0, len(self.log()) - a_start_bytes * self.starts)
        return said / max(1.0, ran)
