"""``python -m workloads bench mrc``: ``spreds mrc`` and libCacheSim's SHARDS side by side.

Whole processes, one thread each, on the same file in the page cache, in turn; by objects. Time
without start-up is that of a run less that of a run on one request. The error is the mean absolute
difference to the exact LRU curve on a linear grid of sizes, with another salt in each round.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sidecar.mrc.library import library
from sidecar.mrc.trace_curve import TraceCurve, estimate_curve
from sidecar.traces.binary import ORACLE_GENERAL_RECORD
from sidecar.traces.reader import TraceError, read_trace
from workloads.bench.libcachesim import data_file, profiler
from workloads.local_server import BUILD
from workloads.table import text_table
from workloads.zipf import zipf_keys

HELP = "compare spreds mrc with libCacheSim's SHARDS: speed, memory and error on the same traces"
FOLDER = BUILD / "bench-mrc"
GRID_POINTS = 100
MODES = {"R = 0.01": ("FIX_RATE,0.01", "--rate=0.01"), "8192": ("FIX_SIZE,8192", "--objects=8192")}
ROW = re.compile(r"^(\d+)B\t([0-9.]+)\t", re.MULTILINE)
HEADER = ["trace, sample", "Mreq/s", "libCacheSim", "ratio", "from", "to", "running", "CPU"]
HEADER += ["MB", "libCacheSim", "error", "libCacheSim"]


@dataclass(frozen=True)
class Trace:
    """A file, the arguments by which libCacheSim reads it, and the same with one request."""

    name: str
    path: Path
    one_request: Path
    requests: int
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One process.

    Attributes:
        seconds, cpu_seconds: of the whole process.
        peak_bytes: resident memory; of libCacheSim's, the mapped trace is a part.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("--quick", action="store_true", help="a shorter trace and fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0, or 1 if something cannot be built or run."""
    try:
        if library() is None:
            raise RuntimeError("spreds' own compiled library is not installed: run 'make setup'")
        _say("libCacheSim is built from its source, if it is not yet")
        program = profiler()
        rounds = 3 if arguments.quick else 7
        results = []
        for trace in _traces(arguments.quick):
            exact = estimate_curve(read_trace(trace.path))
            for mode in MODES:
                _say(f"{trace.name}, {mode}: {rounds} pairs")
                results.append(_compare(program, trace, mode, exact, rounds))
    except (RuntimeError, OSError, TraceError) as error:
        _say(str(error))
        return 1
    print(text_table(HEADER, [_row(result) for result in results]))
    print(
        "\nMreq/s: of the whole process; ratio: spreds / libCacheSim, median and range of the "
        "pairs;\nrunning: the same without start-up; CPU: CPU time; MB: peak resident memory "
        "(libCacheSim's\nincludes the trace, which it maps); error: mean absolute, median of the "
        "salts."
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def _compare(
    program: Path, trace: Trace, mode: str, exact: TraceCurve, rounds: int
) -> dict[str, Any]:
    theirs_mode, ours_mode = MODES[mode]
    sizes = np.unique(
        np.linspace(exact.live_objects / GRID_POINTS, exact.live_objects, 100, dtype=int)
    )
    wanted = ",".join(f"{size}B" for size in sizes)
    truth = exact.miss_ratio(sizes)

    def theirs(path: Path, salt: int) -> Run:
        return _run(
            [
                *(str(program), str(path), *trace.arguments, "--algo=LRU", "--profiler=SHARDS"),
                *(f"--profiler-params={theirs_mode},{salt}", f"--size={wanted}"),
                "--ignore-obj-size",
            ]
        )

    def ours(path: Path, salt: int) -> Run:
        return _run(
            [
                *(sys.executable, "-m", "sidecar.cli", "mrc", str(path), ours_mode),
                *(f"--salt={salt}", "--json", "--points=2"),
            ]
        )

    def measure(tool: Callable[[Path, int], Run]) -> Iterator[tuple[Run, Run]]:
        for salt in range(1, rounds + 1):
            yield tool(trace.one_request, salt), tool(trace.path, salt)

    pairs = list(zip(measure(ours), measure(theirs), strict=True))  # in turn: both are lazy
    errors: dict[str, list[float]] = {"spreds": [], "libcachesim": []}
    for salt, (_, (_, their_run)) in enumerate(pairs, 1):
        errors["spreds"].append(_error(_our_curve(trace, mode, salt).miss_ratio(sizes), truth))
        found = {int(size): float(ratio) for size, ratio in ROW.findall(their_run.output)}
        if len(found) != len(sizes):
            raise RuntimeError(f"libCacheSim printed no curve: {their_run.output[-1000:]}")
        errors["libcachesim"].append(_error(np.array(list(found.values())), truth))

    def ratios(value: Callable[[tuple[Run, Run]], float]) -> dict[str, float]:
        """Theirs over ours: above 1, ours is better."""
        each = [value(their) / value(our) for our, their in pairs]
        return {"median": statistics.median(each), "least": min(each), "most": max(each)}

    def tool(which: int, name: str) -> dict[str, Any]:
        runs = [pair[which] for pair in pairs]
        seconds = statistics.median(run.seconds for _, run in runs)
        return {
            "requests_per_second": trace.requests / seconds,
            "start_seconds": statistics.median(start.seconds for start, _ in runs),
            "peak_bytes": statistics.median(run.peak_bytes for _, run in runs),
            "error": statistics.median(errors[name]),
            "errors": errors[name],
            "runs": [
                {key: value for key, value in asdict(run).items() if key != "output"}
                for _, run in runs
            ],
        }

    return {
        "trace": trace.name,
        "requests": trace.requests,
        "sample": mode,
        "spreds": tool(0, "spreds"),
        "libcachesim": tool(1, "libcachesim"),
        "speed_ratio": ratios(lambda pair: pair[1].seconds),
        "speed_ratio_without_start": ratios(lambda pair: pair[1].seconds - pair[0].seconds),
        "cpu_ratio": ratios(lambda pair: pair[1].cpu_seconds),
    }


def _our_curve(trace: Trace, mode: str, salt: int) -> TraceCurve:
    rate, limit = (0.01, None) if mode == "R = 0.01" else (1.0, 8192)
    return estimate_curve(read_trace(trace.path), rate=rate, limit_objects=limit, salt=salt)


def _error(ratios: Any, truth: Any) -> float:
    return float(np.abs(ratios - truth).mean())


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


def _run(command: list[str]) -> Run:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _STARTER, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    output, _, report = done.stdout.rstrip("\n").rpartition("\n")
    status, seconds, cpu_seconds, peak_bytes = json.loads(report)
    if status:
        raise RuntimeError(f"`{' '.join(command)}` failed: {output[-1000:]}")
    return Run(seconds, cpu_seconds, peak_bytes, output)


def _traces(quick: bool) -> list[Trace]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    count = 5_000_000 if quick else 40_000_000
    generated = FOLDER / f"zipf-{count}.oracleGeneral.bin"
    if not generated.exists():
        _say(f"generating {count:,} requests, Zipf 0.99 over 1,000,000 keys")
        _write_binary(generated, zipf_keys(1_000_000, 0.99, count, np.random.default_rng(1)))
    twitter = FOLDER / "twitter.csv"
    if not twitter.exists():
        _say("unpacking the Twitter trace of libCacheSim")
        _decompress(data_file("twitter_cluster52_10m.csv.zst"), twitter)
    binary = FOLDER / "twitter.oracleGeneral.bin"
    if not binary.exists():
        chunks = [chunk.keys for chunk in read_trace(twitter)]
        _write_binary(binary, np.concatenate(chunks))
    columns = "time-col=1,obj-id-col=2,obj-size-col=3,obj-id-is-num=true,has-header=true"
    as_binary, as_csv = ("oracleGeneral",), ("csv", "-t", columns)
    return [
        _trace(f"Zipf, {count // 10**6} M, binary", generated, as_binary),
        _trace("Twitter, 10 M, binary", binary, as_binary),
        _trace("Twitter, 10 M, CSV", twitter, as_csv),
    ]


def _trace(name: str, path: Path, arguments: tuple[str, ...]) -> Trace:
    """Also writes the file with one request, and reads the whole one into the page cache."""
    one = path.with_name(f"one-request-{path.name}")
    with path.open("rb") as file:
        if path.suffix == ".bin":
            one.write_bytes(file.read(ORACLE_GENERAL_RECORD.itemsize))
        else:
            one.write_bytes(file.readline() + file.readline())
    return Trace(name, path, one, sum(map(len, read_trace(path))), arguments)


def _write_binary(path: Path, keys: Any) -> None:
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        for start in range(0, len(keys), 1 << 20):
            records = np.zeros(len(keys[start : start + (1 << 20)]), dtype=ORACLE_GENERAL_RECORD)
            records["time"] = np.arange(start, start + len(records)) // 10_000
            records["key"] = keys[start : start + len(records)] + np.uint64(1)
            records["size"] = 1
            records["next_request"] = -1
            file.write(records.tobytes())
    part.rename(path)


def _decompress(source: Path, target: Path) -> None:
    import zstandard

    part = target.with_name(f"{target.name}.part")
    with source.open("rb") as reading, part.open("wb") as writing:
        zstandard.ZstdDecompressor().copy_stream(reading, writing)
    part.rename(target)


def _row(result: dict[str, Any]) -> list[str]:
    ours, theirs, ratio = result["spreds"], result["libcachesim"], result["speed_ratio"]
    return [
        f"{result['trace']}, {result['sample']}",
        f"{ours['requests_per_second'] / 1e6:.1f}",
        f"{theirs['requests_per_second'] / 1e6:.1f}",
        f"{ratio['median']:.2f}",
        f"{ratio['least']:.2f}",
        f"{ratio['most']:.2f}",
        f"{result['speed_ratio_without_start']['median']:.2f}",
        f"{result['cpu_ratio']['median']:.2f}",
        f"{ours['peak_bytes'] / 1e6:.0f}",
        f"{theirs['peak_bytes'] / 1e6:.0f}",
        f"{ours['error']:.4f}",
        f"{theirs['error']:.4f}",
    ]


def _say(text: str) -> None:
    print(f"bench mrc: {text}", file=sys.stderr, flush=True)
