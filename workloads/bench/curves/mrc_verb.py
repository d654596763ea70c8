"""``python -m workloads bench mrc``: ``spreds mrc`` and libCacheSim's SHARDS side by side.

Whole processes, one thread each, on the same file in the page cache, by turns; by objects. Ratios
are libCacheSim's time over that of ``spreds``, pair by pair. The error is the mean absolute
difference to the exact LRU curve on 64 sizes, with another salt in each pair. The sizes are evenly
spaced (linear) or in even ratios (log).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library
from sidecar.mrc.trace_curve import TraceCurve, estimate_curve_of_file
from sidecar.traces.file import TraceError
from workloads.arguments import ORM_BUSY, add_figures, add_traces, positive, write_json
from workloads.bench.curves.mrc_traces import BenchTrace, large_trace, profiler, say, small_traces
from workloads.table import text_table

HELP = "compare spreds mrc with libCacheSim's SHARDS: speed, memory and error on the same traces"
GRID_POINTS = 64  # on each of two grids: libCacheSim takes at most 128 sizes
ROW = re.compile(r"^(\d+)B\t([0-9.]+)\t", re.MULTILINE)
HEADER = ["trace, sample", "M/s", "lCS", "wall ratio", "CPU ratio", "CPU ms", "lCS"]
HEADER += ["MB", "lCS", "linear", "lCS", "log", "lCS"]


@dataclass(frozen=True)
class Sample:
    """How much of a trace is looked at."""

    name: str
    rate: float = 1.0
    limit_objects: int | None = None

    @property
    def our_argument(self) -> str:
        """Return the argument of ``spreds mrc``."""
        return f"--objects={self.limit_objects}" if self.limit_objects else f"--rate={self.rate}"

    @property
    def their_argument(self) -> str:
        """Return the argument of libCacheSim's profiler, with the salt to follow."""
        if self.limit_objects:
            return f"FIX_SIZE,{self.limit_objects}"
        return f"FIX_RATE,{self.rate:g}"


SAMPLES = [Sample("R = 0.01", 0.01), Sample("R = 0.001", 0.001), Sample("8192", 1.0, 8192)]
EXACT = Sample("exact")
EXACT_PAIRS = 1  # libCacheSim takes a quarter of a minute for ten million requests


@dataclass(frozen=True)
class Run:
    """Holds what one process took.

    Attributes:
        seconds, cpu_seconds: of the whole process.
        peak_bytes: resident memory; what it has mapped of the trace is a part.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the trace of 100 million requests, and run 3 pairs",
    )
    parser.add_argument(
        "--pairs", type=positive, default=7, metavar="N", help="pairs of runs (default: 7)"
    )
    add_traces(parser, ORM_BUSY)
    add_figures(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0, or 1 if something cannot be built or run."""
    pairs = 3 if arguments.quick else arguments.pairs
    try:
        library()
        say("libCacheSim is built from its source, if it is not yet")
        program = profiler()
        results: list[dict[str, Any]] = []
        for trace in small_traces(arguments.traces):
            results += _compare_all(program, trace, pairs, [*SAMPLES, EXACT])
        if not arguments.quick:
            with large_trace() as trace:
                results += _compare_all(program, trace, pairs, SAMPLES)
    except (RuntimeError, OSError, TraceError) as error:
        say(str(error))
        return 1
    print(text_table(HEADER, [_row(result) for result in results]))
    print(
        "\nlCS: libCacheSim. M/s: million requests a second, whole process. Ratios: libCacheSim's "
        "time / ours,\nmedian (least to most) of the pairs. MB: peak resident memory, mapped parts "
        "of the trace included.\nlinear, log: mean absolute error on a grid of sizes, median of "
        "the salts."
    )
    write_json(arguments.json, results)
    return 0


def _compare_all(
    program: Path, trace: BenchTrace, pairs: int, samples: list[Sample]
) -> list[dict[str, Any]]:
    exact = estimate_curve_of_file(trace.path)
    results = []
    for sample in samples:
        count = min(pairs, EXACT_PAIRS) if sample is EXACT else pairs
        result = _compare(program, trace, sample, exact, count)
        ratios = (
            f"wall {result['wall_ratio']['median']:.2f}, CPU {result['cpu_ratio']['median']:.2f}"
        )
        say(f"{trace.name}, {sample.name}: {ratios} times as fast, median of {count} pairs")
        results.append(result)
    return results


def _compare(
    program: Path, trace: BenchTrace, sample: Sample, exact: TraceCurve, pairs: int
) -> dict[str, Any]:
    largest = exact.live_objects
    grids = {
        "linear": np.unique(np.linspace(largest / GRID_POINTS, largest, GRID_POINTS, dtype=int)),
        "log": np.unique(np.geomspace(1, largest, GRID_POINTS, dtype=int)),
    }
    wanted = ",".join(f"{size}B" for size in np.unique(np.concatenate([*grids.values()])))
    spreds = str(Path(sys.executable).with_name("spreds"))

    def ours(path: Path, salt: int) -> Run:
        command = [spreds, "mrc", str(path), sample.our_argument, f"--salt={salt}"]
        # Of one request there is hardly ever a sample, which is refused at the end.
        return _run(command, statuses=(0, 1) if path == trace.one_request else (0,))

    def theirs(path: Path, salt: int) -> Run:
        return _run(
            [
                *(str(program), str(path), *trace.arguments, "--algo=LRU", "--profiler=SHARDS"),
                *(f"--profiler-params={sample.their_argument},{salt}", f"--size={wanted}"),
                "--ignore-obj-size",
            ]
        )

    tools = {"spreds": ours, "libcachesim": theirs}
    runs: dict[str, list[Run]] = {name: [] for name in tools}
    starts: dict[str, list[Run]] = {name: [] for name in tools}
    ours(trace.one_request, 1)  # after this the bytecode is cached, as it is once installed
    for salt in range(1, pairs + 1):
        for name in sorted(tools, reverse=bool(salt % 2)):
            starts[name].append(tools[name](trace.one_request, salt))
            runs[name].append(tools[name](trace.path, salt))

    curves = [
        estimate_curve_of_file(
            trace.path, rate=sample.rate, limit_objects=sample.limit_objects, salt=salt
        )
        for salt in range(1, pairs + 1)
    ]

    def errors(name: str, grid: npt.NDArray[np.int64]) -> list[float]:
        sizes = grid.tolist()
        truth = np.array(exact.miss_ratios_at(sizes))
        if name == "spreds":
            found = [curve.miss_ratios_at(sizes) for curve in curves]
        else:
            found = [[_ratios_in(run.output)[size] for size in sizes] for run in runs[name]]
        return [float(np.abs(np.array(ratios) - truth).mean()) for ratios in found]

    def tool(name: str) -> dict[str, Any]:
        seconds = statistics.median(run.seconds for run in runs[name])
        return {
            "requests_per_second": trace.requests / seconds,
            "seconds": seconds,
            "cpu_seconds": statistics.median(run.cpu_seconds for run in runs[name]),
            "start_seconds": statistics.median(run.seconds for run in starts[name]),
            "start_cpu_seconds": statistics.median(run.cpu_seconds for run in starts[name]),
            "peak_bytes": statistics.median(run.peak_bytes for run in runs[name]),
            "errors": {kind: errors(name, grid) for kind, grid in grids.items()},
            "runs": [
                {key: value for key, value in asdict(run).items() if key != "output"}
                for run in runs[name]
            ],
        }

    def ratio(value: Callable[[Run], float]) -> dict[str, float]:
        """Divide theirs by ours: above 1, ours is better."""
        each = [
            value(their) / value(our)
            for our, their in zip(runs["spreds"], runs["libcachesim"], strict=True)
        ]
        return {"median": statistics.median(each), "least": min(each), "most": max(each)}

    return {
        "trace": trace.name,
        "requests": trace.requests,
        "sample": sample.name,
        **{name: tool(name) for name in tools},
        "wall_ratio": ratio(lambda run: run.seconds),
        "cpu_ratio": ratio(lambda run: run.cpu_seconds),
    }


def _ratios_in(output: str) -> dict[int, float]:
    """Miss ratio by size, as libCacheSim prints them."""
    ratios = {int(size): float(ratio) for size, ratio in ROW.findall(output)}
    if not ratios:
        raise RuntimeError(f"libCacheSim printed no curve: {output[-1000:]}")
    return ratios


# Starts a program and reports on it. A small process: a child's peak of resident memory begins
# with that of whoever started it.
_STARTER = """
import json, os, sys, time
began = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - began
print(json.dumps([status, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024]))
"""


def _run(command: list[str], statuses: tuple[int, ...] = (0,)) -> Run:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _STARTER, *command],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )
    output, _, report = done.stdout.rstrip("\n").rpartition("\n")
    status, seconds, cpu_seconds, peak_bytes = json.loads(report)
    if os.waitstatus_to_exitcode(status) not in statuses:
        told = f"{output}\n{done.stderr}"[-1000:]
        raise RuntimeError(f"`{' '.join(command)}` failed: {told}")
    return Run(seconds, cpu_seconds, peak_bytes, output)


def _row(result: dict[str, Any]) -> list[str]:
    def spread(ratio: dict[str, float]) -> str:
        return f"{ratio['median']:.2f} ({ratio['least']:.2f}-{ratio['most']:.2f})"

    def both(text: Callable[[dict[str, Any]], str]) -> list[str]:
        return [text(result["spreds"]), text(result["libcachesim"])]

    return [
        f"{result['trace']}, {result['sample']}",
        *both(lambda tool: f"{tool['requests_per_second'] / 1e6:.1f}"),
        spread(result["wall_ratio"]),
        spread(result["cpu_ratio"]),
        *both(lambda tool: f"{tool['cpu_seconds'] * 1e3:.0f}"),
        *both(lambda tool: f"{tool['peak_bytes'] / 1e6:.0f}"),
        *both(lambda tool: f"{statistics.median(tool['errors']['linear']):.4f}"),
        *both(lambda tool: f"{statistics.median(tool['errors']['log']):.4f}"),
    ]
