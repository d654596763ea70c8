"""One YCSB process that drives one server, as a user would start it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.lookaside import Tally
from workloads.running_program import running_command
from workloads.ycsb.build import YcsbError, ycsb_class_path

_REPORT = "spreds "
# Short runs: compile quickly and not well, and take little memory; no files that a kill leaves.
_JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx192m")


@dataclass(frozen=True)
class YcsbLoad:
    """What YCSB is to ask for. It draws keys by a seed of its own, which cannot be given.

    Attributes:
        read_ratio: 1 for workload C, 0.95 for B; the rest are updates.
        key_count: ``recordcount``. Nothing is loaded: what is read fills the cache.
        value_bytes: of one field.
        request_count: ``operationcount``; reads and updates.
        rate_per_second: ``-target``; ``None``: as many as it can.
        distribution: of the keys; ``zipfian`` is YCSB's scrambled one, of 10^10 ranks that are
            hashed onto the keys.
        backend_latency_seconds: mean of the exponential time that a miss costs.
        waits: for the backend, instead of only counting its time.
        settle_seconds: the first part, which quartiles leave out.
        seed: of the backend's times.
    """

    key_count: int
    value_bytes: int
    request_count: int
    read_ratio: float = 1.0
    rate_per_second: float | None = None
    threads: int = 2
    distribution: str = "zipfian"
    backend_latency_seconds: float = 0.0
    waits: bool = False
    settle_seconds: float = 0.0
    seed: int = 1

    def properties(self, port: int) -> dict[str, object]:
        """As YCSB and the binding name them."""
        return {
            "workload": "site.ycsb.workloads.CoreWorkload",
            "recordcount": self.key_count,
            "operationcount": self.request_count,
            "readproportion": self.read_ratio,
            "updateproportion": round(1 - self.read_ratio, 9),
            "requestdistribution": self.distribution,
            "fieldcount": 1,
            "fieldlength": self.value_bytes,
            "hdrhistogram.percentiles": "50,99",
            "spreds.port": port,
            "spreds.backend": self.backend_latency_seconds,
            "spreds.waits": str(self.waits).lower(),
            "spreds.settle": self.settle_seconds,
            "spreds.seed": self.seed,
        }


@dataclass(frozen=True)
class Window:
    """A report of the binding.

    Attributes:
        seconds: since it began.
        tally: of all reads since then.
        percentiles_seconds: access time of the reads since the report before; by ``25``, ``50``,
            ``75``, ``95``, ``99``.
    """

    seconds: float
    tally: Tally
    percentiles_seconds: dict[str, float]


@dataclass
class YcsbClient:
    """What one process has reported so far.

    Attributes:
        tally: of all reads so far; the access time is that of a hit as YCSB measured it, and of a
            miss with its backend's time.
        updates: so far.
        windows: a report a second, and one at the end.
        settled_seconds: percentiles of the access time after ``settle_seconds``; at the end.
        summary: YCSB's own, for example ``summary["READ"]["99thPercentileLatency(us)"]``; a read
            there has the fill after a miss, and the backend's time only if it was waited for.
    """

    tally: Tally = field(default_factory=Tally)
    updates: int = 0
    windows: list[Window] = field(default_factory=list)
    settled_seconds: dict[str, float] = field(default_factory=dict)
    summary: dict[str, dict[str, float]] = field(default_factory=dict)

    def attach(self, process: subprocess.Popen[str], log: Path) -> None:
        """Read what ``process`` prints, in a thread, until it closes its output."""
        self._process, self._log = process, log
        self._reader = threading.Thread(target=self._read, name="ycsb", daemon=True)
        self._reader.start()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._reader.is_alive()

    def wait(self) -> None:
        """Until it has done all its requests.

        Raises:
            YcsbError: it failed.
        """
        self._reader.join()
        if self._process.wait() or not self.settled_seconds:
            raise YcsbError(f"YCSB failed: {self._log.read_text()[-1000:].strip()}")
        failed = [name for name in self.summary if name.endswith("-FAILED")]
        if failed:
            raise YcsbError(f"YCSB counts failed operations: {', '.join(failed)}")

    def stop(self) -> None:
        """End it. What it prints is read until then: its output is closed by others."""
        self._process.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_REPORT):
                self._take(json.loads(line.removeprefix(_REPORT)))
            elif line.startswith("["):
                name, what, value = line.strip().split(", ")
                self.summary.setdefault(name.strip("[]"), {})[what] = float(value)

    def _take(self, report: dict[str, Any]) -> None:
        tally = Tally(report["requests"], report["hits"], report["access_seconds"])
        self.windows.append(Window(report["seconds"], tally, report["percentiles"]))
        self.tally, self.updates = tally, report["updates"]
        self.settled_seconds = report.get("settled", {})


@contextmanager
def running_ycsb(load: YcsbLoad, port: int, log: Path) -> Iterator[YcsbClient]:
    """YCSB against the server on ``port`` of this machine; ended with the block.

    Raises:
        YcsbError: it cannot be built.
    """
    command = [*_JAVA, "-cp", ycsb_class_path(), "site.ycsb.Client", "-t"]
    command += ["-db", "spreds.LookAsideRedis", "-threads", str(load.threads)]
    if load.rate_per_second is not None:
        command += ["-target", f"{load.rate_per_second:.0f}"]
    for name, value in load.properties(port).items():
        command += ["-p", f"{name}={value}"]
    client = YcsbClient()
    with ExitStack() as stack:
        process = stack.enter_context(
            running_command(command, log, signal.SIGKILL, stdout=subprocess.PIPE)
        )
        client.attach(process, log)
        stack.callback(client.stop)
        yield client
