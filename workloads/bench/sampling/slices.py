"""One slice of load on one server: what its clients saw, and what it cost the server.

Ratios of things measured side by side: their median, its interval, and what that shows.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.local_server import LocalServer

CONFIDENCE = 0.95
FEWEST = 6  # ratios: of fewer, not even the range is such an interval


class MedianRatio(NamedTuple):
    """The median of ``ratios``, and an interval that holds the true one."""

    ratios: list[float]
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def median_ratio(values: Sequence[float], bases: Sequence[float]) -> MedianRatio:
    """Compare each value with the base measured beside it.

    Raises:
        ValueError: not one base for each value.
    """
    ratios = [value / base for value, base in zip(values, bases, strict=True)]
    return MedianRatio(ratios, statistics.median(ratios), *median_interval(ratios))


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return two of the values: the true median lies between them, whatever their distribution.

    The interval of the sign test (Conover, *Practical Nonparametric Statistics*, section 3.2): as
    many values are cut off at either end as fair coins would hardly put there. With fewer than
    ``FEWEST`` values nothing can be cut off, and the confidence in their range is lower than 0.95.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values")
    count, cut, unlikely = len(values), 0, 0.0
    while True:
        unlikely += math.comb(count, cut) / 2**count
        if unlikely > (1 - confidence) / 2:
            break
        cut += 1
    # The cut-th value from either end still belongs to the interval.
    ordered = sorted(values)
    return ordered[max(cut, 1) - 1], ordered[count - max(cut, 1)]


class Target(NamedTuple):
    """What a ratio should be: at most, or at least, ``bound``."""

    bound: float
    at_most: bool = True

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"

    def verdict(self, ratio: MedianRatio, null: MedianRatio) -> str:
        """``met``, ``missed`` or ``not shown``.

        Met: all of the interval is on the good side, and all of the null's: otherwise the
        measurement could not have told. Missed: all of it is on the bad side, and clear of the
        null's. Of fewer ratios than ``FEWEST`` nothing is shown.
        """
        if len(ratio.ratios) < FEWEST:
            return "not shown"
        worst, best = (ratio.high, ratio.low) if self.at_most else (ratio.low, ratio.high)
        if self._holds(worst) and self._holds(null.high if self.at_most else null.low):
            return "met"
        apart = ratio.low > null.high or ratio.high < null.low
        return "missed" if apart and not self._holds(best) else "not shown"

    def _holds(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


CLIENTS = 50
KEYS = 10_000
VALUE_BYTES = 100
PERCENTILES = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9)
_SOURCE = Path(__file__).with_name("closed_loop_load.c")


class Kind(NamedTuple):
    """What the clients ask for.

    Attributes:
        command: ``get`` or ``set``.
        pipeline: requests that a client sends at once.
    """

    command: str
    pipeline: int

    def __str__(self) -> str:
        return self.command.upper() + (f" x{self.pipeline}" if self.pipeline > 1 else "")


KINDS = tuple(Kind(command, pipeline) for command in ("get", "set") for pipeline in (1, 16))


class Slice(NamedTuple):
    """Holds what was measured of a slice.

    Attributes:
        throughput: requests a second.
        latency_seconds: at each of ``PERCENTILES``; of all requests sent at once, where they are
            pipelined.
        cpu_seconds: processor time for each request, of the server's main thread.
        process_cpu_seconds: the same, of all its threads.
    """

    throughput: float
    latency_seconds: list[float]
    cpu_seconds: float
    process_cpu_seconds: float


def build_load(program: Path) -> None:
    """Compile the load generator. Raises CalledProcessError: no C compiler."""
    subprocess.run(["cc", "-O2", "-o", program, _SOURCE, "-lm"], check=True)


def play_load(
    program: Path, server: LocalServer, clients: int, pipeline: int, seconds: float, *what: object
) -> tuple[float, npt.NDArray[np.float64]]:
    """Return the seconds it took, and those of all requests that were sent at once; ``what`` is
    asked for, as the program's source has it.

    Raises:
        subprocess.CalledProcessError: a reply was not the expected one; stderr says more.
    """
    arguments = [server.socket, clients, pipeline, seconds, *what]
    output = subprocess.run(
        [program, *map(str, arguments)], check=True, stdout=subprocess.PIPE
    ).stdout
    elapsed_ns = int(np.frombuffer(output, np.uint64, 1)[0])
    return elapsed_ns / 1e9, np.frombuffer(output, np.uint32, offset=8) / 1e9


class LoadProgram:
    """Compiles the load generator; a context manager.

    Raises:
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="spreds-load-")
        self._program = Path(self._folder.name) / "load"
        build_load(self._program)

    def __enter__(self) -> LoadProgram:
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def run(
        self,
        server: LocalServer,
        kind: Kind,
        seconds: float,
        seed: int,
        *,
        clients: int = CLIENTS,
        skew: float = 0.0,
    ) -> Slice:
        """Load ``server``, which ``fill`` has filled.

        ``skew`` is the exponent of Zipf's law for the keys; 0: all are asked for as often.

        Raises:
            subprocess.CalledProcessError: a reply was not the expected one; stderr says more.
        """
        before = processor_times(server)
        what = (kind.command, KEYS, VALUE_BYTES, seed, skew)
        elapsed_seconds, latencies = play_load(
            self._program, server, clients, kind.pipeline, seconds, *what
        )
        after = processor_times(server)
        requests = len(latencies) * kind.pipeline
        return Slice(
            requests / elapsed_seconds,
            np.percentile(latencies, PERCENTILES).tolist(),
            (after[0] - before[0]) / requests,
            (after[1] - before[1]) / requests,
        )


def fill(server: LocalServer) -> None:
    """Set all keys that the load will ask for."""
    server.client.mset({f"key:{number:012d}": b"x" * VALUE_BYTES for number in range(KEYS)})


def processor_times(server: LocalServer) -> tuple[float, float]:
    """Return seconds of the server's main thread, and of all its threads, since it began."""
    cpu = server.client.info("cpu")
    main = cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]
    return main, cpu["used_cpu_user"] + cpu["used_cpu_sys"]
