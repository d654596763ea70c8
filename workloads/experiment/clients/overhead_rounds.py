"""Rounds of other people's clients on servers that sample, and on others that do not.

What other people's clients do to a server for a moment: throughput, and p50 and p99.
"""

from __future__ import annotations

import csv
import random
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from workloads.bench.sampling.slices import build_load, play_load, processor_times
from workloads.bench.sampling.states import (
    MODULE,
    OFF,
    OTHER_STOCK,
    PATCH,
    STOCK,
    STOCK_AGAIN,
    Consumer,
    Servers,
    State,
    divided_cores,
)
from workloads.experiment.study import Data, Scope, StudyError
from workloads.local_server import LocalServer, built, free_port
from workloads.ycsb.client import YcsbError, YcsbLoad, running_ycsb, ycsb_class_path

CLIENTS = 50
KEYS = 10_000
MIXED_REQUESTS = 32_000
# memtier_benchmark's defaults, but for the sizes.
SETS_OF_ELEVEN = 1
GAUSSIAN_RANGE = 6  # standard deviations in all keys
SIZES_BYTES = (32, 1024)
YCSB_THREADS = 8


class Seen(NamedTuple):
    """Holds what the client saw; latencies are of all requests that were sent at once.

    Attributes:
        operations: how many there were in all.
    """

    operations: int
    operations_per_second: float
    p50_seconds: float
    p99_seconds: float


class ClientLoad(Protocol):
    """A client and what it asks for."""

    @property
    def name(self) -> str: ...

    def run(self, server: LocalServer, seconds: float) -> Seen:
        """Load a server for about so long; it holds what ``bench.sampling.slices.fill`` sets, and
        ``fill_mixed``."""


@dataclass(frozen=True)
class RedisBenchmark:
    """``redis-benchmark``, of 50 clients and 100-byte values.

    Attributes:
        per_second: what is guessed, since it is told a number of requests.
    """

    command: str
    pipeline: int
    per_second: float

    @property
    def name(self) -> str:
        return f"redis-benchmark {self.command.upper()}, pipeline {self.pipeline}"

    def run(self, server: LocalServer, seconds: float) -> Seen:
        count = max(CLIENTS * self.pipeline, round(seconds * self.per_second))
        command = [built("bin/redis-benchmark"), "-s", server.socket, "-t", self.command]
        command += ["-c", CLIENTS, "-P", self.pipeline, "-n", count, "-r", KEYS, "-d", 100]
        done = subprocess.run(
            [*map(str, command), "--csv", "--precision", "3"],
            check=True,
            capture_output=True,
            text=True,
        )
        (row,) = csv.DictReader(done.stdout.splitlines())
        latencies = [float(row[f"{name}_latency_ms"]) / 1000 for name in ("p50", "p99")]
        return Seen(count, float(row["rps"]), *latencies)


class MixedLoad:
    """Loads as memtier_benchmark: SET and GET 1:10, values of 32 bytes to 1 KiB, over raw sockets.

    Args:
        folder: for its program and its requests.
        pattern: of the keys, ``uniform`` or ``Gaussian``.
    """

    def __init__(self, folder: Path, pattern: str, pipeline: int) -> None:
        self.name = f"memtier-like, {pattern} keys, pipeline {pipeline}"
        self._pipeline = pipeline
        self._program = folder / "closed_loop_load"
        self._requests = folder / f"{pattern}.requests"
        if not self._program.exists():
            build_load(self._program)
        if not self._requests.exists():
            self._requests.write_bytes(mixed_requests(pattern, np.random.default_rng(1)))

    def run(self, server: LocalServer, seconds: float) -> Seen:
        elapsed_seconds, latencies = play_load(
            self._program, server, CLIENTS, self._pipeline, seconds, self._requests
        )
        p50, p99 = np.percentile(latencies, (50, 99)).tolist()
        count = len(latencies) * self._pipeline
        return Seen(count, count / elapsed_seconds, p50, p99)


class Ycsb:
    """YCSB's workload B over 10,000 keys of 100 bytes, as many operations as 8 threads do.

    Args:
        folder: for its log.
        per_second: what is guessed, since it is told a number of operations.
    """

    name = f"YCSB, workload B, {YCSB_THREADS} threads"

    def __init__(self, folder: Path, per_second: float) -> None:
        self._log = folder / "ycsb.log"
        self._per_second = per_second

    def run(self, server: LocalServer, seconds: float) -> Seen:
        port = int(server.client.config_get("port")["port"] or 0)
        if not port:
            port = free_port()
            server.client.config_set("bind", "127.0.0.1")
            server.client.config_set("port", port)
        load = YcsbLoad(
            key_count=KEYS,
            value_bytes=100,
            request_count=round(seconds * self._per_second),
            read_ratio=0.95,
            threads=YCSB_THREADS,
        )
        with running_ycsb(load, port, self._log) as client:
            client.wait()
        reads = client.summary["READ"]
        return Seen(
            load.request_count,
            client.summary["OVERALL"]["Throughput(ops/sec)"],
            *(reads[f"{name}PercentileLatency(us)"] / 1e6 for name in ("50th", "99th")),
        )


def fill_mixed(server: LocalServer) -> None:
    """Set all keys that a mixed load will ask for."""
    sizes = mixed_sizes().tolist()
    server.client.mset({mixed_key(key): b"x" * size for key, size in enumerate(sizes)})


def mixed_key(key: int) -> bytes:
    """Name a key as memtier_benchmark does."""
    return b"memtier-%d" % key


def mixed_sizes() -> npt.NDArray[np.int64]:
    """Return the bytes of each key's value, even between the least and the greatest."""
    return np.random.default_rng(0).integers(SIZES_BYTES[0], SIZES_BYTES[1] + 1, KEYS)


def mixed_requests(pattern: str, random: np.random.Generator) -> bytes:
    """Make the bytes that ``closed_loop_load`` reads."""
    if pattern == "uniform":
        keys = random.integers(0, KEYS, MIXED_REQUESTS)
    else:
        drawn = random.normal(KEYS / 2, KEYS / GAUSSIAN_RANGE, MIXED_REQUESTS)
        keys = np.clip(drawn, 0, KEYS - 1).astype(np.int64)
    sets = random.integers(0, 11, MIXED_REQUESTS) < SETS_OF_ELEVEN
    sizes = mixed_sizes()
    parts = []
    for key, is_set in zip(keys.tolist(), sets.tolist(), strict=True):
        name = mixed_key(key)
        words = [b"SET", name, b"x" * int(sizes[key])] if is_set else [b"GET", name]
        parts.append(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)
        )
    lengths = np.array([len(part) for part in parts], np.uint32)
    return np.uint64(len(parts)).tobytes() + lengths.tobytes() + b"".join(parts)


RATE = 0.01
MODULE_ON = next(state for state in MODULE if state.rate == RATE)
PATCH_ON = next(state for state in PATCH if state.rate == RATE)
STATES = (STOCK, STOCK_AGAIN, OTHER_STOCK, MODULE_ON, OFF, PATCH_ON)
ROUNDS_A_SEED = 2
SLICE_SECONDS, QUICK_SLICE_SECONDS = 0.2, 0.05
YCSB_SECONDS = 1.0
METRICS = ("throughput", "p50", "p99", "processor time of an operation")


def measure(scope: Scope) -> Data:
    """Rounds of all loads on all states in a random order, in new processes each round.

    Raises:
        StudyError: YCSB or the mixed load cannot be built, or a client failed.
    """
    scope.progress("building the clients", 0.0)
    with tempfile.TemporaryDirectory(prefix="spreds-clients-") as name:
        try:
            ycsb_class_path()
            loads = _loads(Path(name), scope.is_quick)
            return _measured(scope, loads)
        except subprocess.CalledProcessError as error:
            raise StudyError(
                f"{error.cmd[0]} failed: {error.stderr or error.returncode}"
            ) from error
        except YcsbError as error:
            raise StudyError(str(error)) from error


def _loads(folder: Path, is_quick: bool) -> list[ClientLoad]:
    commands = ("get",) if is_quick else ("get", "set")
    loads: list[ClientLoad] = [
        *(
            RedisBenchmark(command, pipeline, per_second)
            for command in commands
            for pipeline, per_second in ((1, 60_000.0), (16, 350_000.0))
        ),
        *(
            MixedLoad(folder, pattern, pipeline)
            for pattern in (("Gaussian",) if is_quick else ("uniform", "Gaussian"))
            for pipeline in (1, 4)
        ),
    ]
    # A JVM for each state takes seconds.
    return loads if is_quick else [*loads, Ycsb(folder, 12_000.0)]


def _measured(scope: Scope, loads: list[ClientLoad]) -> Data:
    rounds = 1 if scope.is_quick else ROUNDS_A_SEED
    plan = [(seed, number) for seed in scope.seeds for number in range(rounds)]
    seen: dict[str, dict[str, list[list[float]]]] = {
        load.name: {state.name: [] for state in STATES} for load in loads
    }
    with divided_cores() as core, Consumer() as consumer:
        for done, (seed, number) in enumerate(plan):
            order = random.Random(seed * 1_000_003 + number)
            with Servers(consumer, lambda _: None, core, order) as servers:
                for place, (load, state, found) in enumerate(_round(scope, servers, loads, order)):
                    share = (done + place / len(loads) / len(STATES)) / len(plan)
                    scope.progress(f"round {done + 1} of {len(plan)}, {load.name}", share)
                    seen[load.name][state.name].append(found)
    return {"rounds": len(plan), "seen": seen}


def _round(
    scope: Scope, servers: Servers, loads: list[ClientLoad], order: random.Random
) -> Iterator[tuple[ClientLoad, State, list[float]]]:
    """Values are in the order of ``METRICS``."""
    for state in (STOCK, OTHER_STOCK, OFF):
        with servers.held_in(state) as server:
            fill_mixed(server)
    for load in order.sample(loads, len(loads)):
        seconds = QUICK_SLICE_SECONDS if scope.is_quick else SLICE_SECONDS
        if isinstance(load, Ycsb):
            seconds = YCSB_SECONDS
        for state in order.sample(STATES, len(STATES)):
            with servers.held_in(state) as server:
                before, _ = processor_times(server)
                operations, *of_client = load.run(server, seconds)
                after, _ = processor_times(server)
                yield load, state, [*of_client, (after - before) / operations]
