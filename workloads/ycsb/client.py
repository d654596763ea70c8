"""One YCSB process that drives one server, as a user would start it.

It is built on demand: Maven brings YCSB's core and a Redis client, javac does the rest. YCSB is
under Apache-2.0, jedis under MIT; neither is part of the project, nor bundled with it.

Requests drawn as YCSB 0.17.0 draws them, for what has to know the keys; YCSB does not tell its.

``requestdistribution=zipfian`` is its scrambled Zipfian: ranks of a Zipf law over 10^10 items
(Gray and others, *Quickly generating billion-record synthetic databases*, SIGMOD'94) are hashed
onto the keys. Only some 40 % of the requests fall on the few thousand lowest ranks, and the others
nearly evenly on all keys. So it is much flatter than its exponent of 0.99 says.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.load import Load
from workloads.local_server import BUILD
from workloads.lookaside import Tally
from workloads.processes import running_command

_FOLDER = Path(__file__).resolve().parent
_SOURCES = (_FOLDER / "pom.xml", *sorted((_FOLDER / "java").rglob("*.java")))
_BUILT = BUILD / "ycsb"


class YcsbError(RuntimeError):
    """YCSB cannot be built, or failed; one sentence, or what it printed last."""


def ycsb_class_path() -> str:
    """Return what ``java -cp`` needs; builds it first where its sources have changed.

    Raises:
        YcsbError: Java or Maven is missing, or the build failed.
    """
    for command, package in (("javac", "default-jdk-headless"), ("mvn", "maven")):
        if not shutil.which(command):
            raise YcsbError(
                f"YCSB needs the command {command}: sudo apt-get install {package}, "
                "or .ci/setup evaluation"
            )
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "ycsb.lock").open("w") as lock:
        os.fchmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        stamp, wanted = _BUILT / "stamp", _digest()
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(_BUILT, ignore_errors=True)
            _build()
            stamp.write_text(wanted)
    return f"{_BUILT}/classes:{_BUILT}/lib/*"


def _digest() -> str:
    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _build() -> None:
    command = ["mvn", "-q", "-B", "-f", str(_FOLDER / "pom.xml"), f"-Dbuilt={_BUILT}"]
    done = subprocess.run(
        [*command, "process-classes"],
        # Or it looks for options of Java in each folder above.
        env={**os.environ, "MAVEN_BASEDIR": str(_FOLDER)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise YcsbError(f"YCSB could not be built: {done.stdout.strip()[-1000:]}")


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
        """Return the properties as YCSB and the binding name them."""
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
        """Wait until it has done all its requests.

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


ITEMS = 10_000_000_001
ZETA = 26.46902820178302  # of ITEMS, as YCSB has it
EXPONENT = 0.99
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(1099511628211)


def ycsb_draws(load: YcsbLoad) -> Load:
    """Draw as many reads as YCSB would make; the keys have its names, with the same hot ones."""
    random = np.random.default_rng(load.seed)
    numbers = np.empty(0, np.int64)
    while len(numbers) < load.request_count:
        ranks = zipf_ranks(random.random(load.request_count))
        # Of one number too many, which is then drawn again.
        drawn = _fnv(ranks) % (load.key_count + 1)
        numbers = np.concatenate([numbers, drawn[drawn < load.key_count]])
    names = [b"user%d" % name for name in _fnv(np.arange(load.key_count)).tolist()]
    keys = [names[number] for number in numbers[: load.request_count].tolist()]
    return Load(
        keys,
        [len(key) + load.value_bytes for key in keys],
        random.exponential(load.backend_latency_seconds, load.request_count),
        f"YCSB: scrambled Zipfian over {load.key_count:,} keys of {load.value_bytes:,} bytes",
    )


def zipf_ranks(uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Ranks from 0, of numbers in [0, 1), as YCSB's ``ZipfianGenerator`` makes them."""
    two = 1 + 0.5**EXPONENT
    eta = (1 - (2 / ITEMS) ** (1 - EXPONENT)) / (1 - two / ZETA)
    ranks: npt.NDArray[np.int64] = (
        ITEMS * (eta * uniform - eta + 1) ** (1 / (1 - EXPONENT))
    ).astype(np.int64)
    ranks[uniform * ZETA < two] = 1
    ranks[uniform * ZETA < 1] = 0
    return ranks


def _fnv(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Fowler, Noll and Vo's hash of 8 bytes, 1a, without its sign."""
    left = numbers.astype(np.uint64)
    found = np.full(len(left), _FNV_OFFSET)
    with np.errstate(over="ignore"):
        for _ in range(8):
            found = (found ^ (left & np.uint64(0xFF))) * _FNV_PRIME
            left >>= np.uint64(8)
    positive: npt.NDArray[np.int64] = np.abs(found.view(np.int64))
    return positive
