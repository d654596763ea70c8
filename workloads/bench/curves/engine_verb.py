"""``python -m workloads bench engine``: the sidecar's engine, from a batch to the histogram.

Speed in samples a second of processor time on one core, beside the least that a stack can do: one
sorted list of equal objects. Error against exact LRU. Memory at several numbers of keys.

Mean absolute error of the engine's curves against exact LRU, salt by salt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.config.sampling import LIVE_OBJECTS
from sidecar.curves.miss_ratio_histogram import EDGES_BYTES, MissRatioHistogram
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.shards import Shards
from sidecar.mrc.trace_curve import estimate_curve
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS, Operation
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.trace_reader import TraceError
from workloads.arguments import (
    TWITTER,
    add_figures,
    add_traces,
    whole_numbers,
    write_json,
)
from workloads.bench.curves import engine_memory
from workloads.bench.curves.engine_streams import (
    Requests,
    sampled_stream,
    twitter_requests,
    zipf_requests,
)
from workloads.sample_batches import SampledServer, number_hashes
from workloads.table import say, text_table

_GRID_POINTS = 100
# All objects weigh the same, and so much that the smallest cache is a bucket of its own.
_OBJECT_BYTES = 256
_PART = 1 << 20

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """Mean absolute errors of one trace and way of sampling, one for each salt.

    Attributes:
        linear: over sizes at equal steps up to all objects.
        log: over sizes at equal ratios, from 100 objects.
    """

    trace: str
    sample: str
    linear: list[float]
    log: list[float]


def errors_of_salts(requests: Requests, live_objects: int, salts: int) -> Iterator[Errors]:
    """Yield the errors at the fixed rate 0.01, then with ``live_objects`` of all."""
    count = len(requests.keys)
    exact = estimate_curve(
        [
            TraceChunk(
                np.zeros(count), requests.keys.astype(np.uint64), np.ones(count, dtype=np.uint32)
            )
        ]
    )
    objects = exact.live_objects
    grids = (
        np.arange(1, _GRID_POINTS + 1) * objects // _GRID_POINTS,
        np.geomspace(100, objects, _GRID_POINTS).astype(np.int64),
    )
    truths = [np.array(exact.miss_ratios_at(grid.tolist())) for grid in grids]
    for name, threshold, limit in (
        ("R = 0.01", DEFAULT_MODULUS // 100, None),
        (f"{live_objects:,} objects", DEFAULT_MODULUS, live_objects),
    ):
        errors: tuple[list[float], list[float]] = ([], [])
        for salt in range(1, salts + 1):
            ratios = _miss_ratios(requests, Shards(limit), SampledServer(1, threshold, salt=salt))
            for grid, truth, into in zip(grids, truths, errors, strict=True):
                estimate = np.interp(grid * _OBJECT_BYTES, EDGES_BYTES, ratios)
                into.append(float(np.abs(estimate - truth).mean()))
        yield Errors(requests.name, name, *errors)


def _miss_ratios(requests: Requests, shards: Shards, server: SampledServer) -> FloatArray:
    """Estimate miss ratios of a server that holds nothing: each read misses and is filled."""
    histogram = MissRatioHistogram()
    hashes = number_hashes(np.arange(len(requests.sizes_bytes)), server.salt)
    for start in range(0, len(requests.keys), _PART):
        keys = requests.keys[start : start + _PART]
        for message in server.batches(
            np.repeat(hashes[keys], 2),
            np.tile([Operation.READ_MISS, Operation.WRITE], len(keys)),
            np.tile([0, _OBJECT_BYTES], len(keys)),
        ):
            batch = decode_batch(message)
            taken = shards.take(batch)
            histogram.add(taken.distances_bytes, 1 / taken.rate, taken.ids)
            histogram.reads.new[...] = batch.seen_reads
    return histogram.miss_ratios()


HELP = "measure the engine of the sidecar: samples a second, error against exact LRU, memory"
_OVERHEAD_BYTES, _DEFAULT_BYTES = 60, 300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="measure fewer rounds, salts and keys")
    add_figures(parser)
    add_traces(parser, TWITTER)
    parser.add_argument(
        "--keys",
        type=whole_numbers,
        metavar="N,N",
        help="numbers of keys to measure memory with (default: 1e5,1e6,1e7,1e8; quick: 1e5,1e6)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; a trace that is missing is left out, and named."""
    quick = arguments.quick
    traces = [zipf_requests(200_000 if quick else 1_000_000, 1_000_000 if quick else 10_000_000)]
    try:
        traces.append(twitter_requests(arguments.traces))
    except (OSError, TraceError) as error:
        say(f"bench engine: without Twitter: {error}")
    result: dict[str, Any] = {"speed": [], "error": [], "memory": []}
    for trace in traces:
        say(f"bench engine: {trace.name}: speed")
        result["speed"].append(_speed(trace, 100_000 if quick else 500_000, 3 if quick else 9))
    print(text_table(["M samples/s", *SPEED_HEAD], [_speed_row(row) for row in result["speed"]]))
    print(f"\n{SPEED_LEGEND}")
    for trace in traces:
        say(f"bench engine: {trace.name}: error")
        for errors in errors_of_salts(trace, LIVE_OBJECTS, 3 if quick else 20):
            result["error"].append(errors.__dict__)
    rows = [_error_row(Errors(**row)) for row in result["error"]]
    print("\n" + text_table(["mean absolute error", *ERROR_HEAD], rows))
    for keys in arguments.keys or ([10**5, 10**6] if quick else [10**5, 10**6, 10**7, 10**8]):
        say(f"bench engine: {keys:,} keys: memory")
        # A process of its own: what ran before leaves no trace in it.
        told = subprocess.run(
            [sys.executable, "-m", engine_memory.__name__, str(keys)],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip
        result["memory"].append(json.loads(told))
    print("\n" + text_table(["keys", *MEMORY_HEAD], [_memory_row(r) for r in result["memory"]]))
    write_json(arguments.json, result)
    return 0


SPEED_HEAD = ["stack", "from", "to", "list", "stack/list", "whole monitor", "live objects"]
SPEED_LEGEND = """\
stack: decoder, SHARDS and histogram, median (from least to most); list: a sorted list of equal
objects, reads alone; whole monitor: the stack with TTLs, backend latency and all else."""
ERROR_HEAD = ["salts", "linear", "worst", "log", "worst"]
MEMORY_HEAD = ["samples", "live objects", "live KB", "peak KB"]


def _speed(requests: Requests, samples: int, rounds: int) -> dict[str, Any]:
    # A few less than would lower the threshold: a server's samples cost nothing when left out.
    messages = sampled_stream(requests, LIVE_OBJECTS - 100, samples)
    references = [_references(message) for message in messages]
    count = sum(len(decode_batch(message).records) for message in messages)
    read_count = sum(map(len, references))
    live = 0

    def engine() -> None:
        nonlocal live
        shards, histogram = Shards(LIVE_OBJECTS), MissRatioHistogram()
        for message in messages:
            taken = shards.take(decode_batch(message), _OVERHEAD_BYTES, _DEFAULT_BYTES)
            histogram.add(taken.distances_bytes, 1 / taken.rate, taken.ids)
        live = len(shards)

    def monitor() -> None:
        monitor = ServerMonitor("one", live_objects=LIVE_OBJECTS)
        for message in messages:
            monitor.take(decode_batch(message))

    def naive() -> None:
        list_distances(references)

    # In turn, so that a slower minute of the machine is one of all three.
    times = [[_seconds(work) for work in (engine, naive, monitor)] for _ in range(rounds)]
    engine_seconds, naive_seconds, monitor_seconds = zip(*times, strict=True)
    return {
        "trace": requests.name,
        "samples": count,
        "live_objects": live,
        "engine_per_second": [count / seconds for seconds in engine_seconds],
        "list_per_second": [read_count / seconds for seconds in naive_seconds],
        "monitor_per_second": [count / seconds for seconds in monitor_seconds],
    }


def _seconds(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _references(message: bytes) -> list[int]:
    records = decode_batch(message).records
    keys: list[int] = records["hash"][records["operation"] <= Operation.READ_MISS].tolist()
    return keys


def list_distances(batches: Sequence[Sequence[int]]) -> list[int]:
    """Distances in objects of reads alone: no sizes, writes, deletions or decoding."""
    last: dict[int, int] = {}
    times: list[int] = []
    distances: list[int] = []
    now = 0
    for keys in batches:
        for key in keys:
            now += 1
            before = last.get(key)
            if before is not None:
                place = bisect_right(times, before)
                distances.append(len(times) - place)
                del times[place - 1]
            times.append(now)
            last[key] = now
    return distances


def _speed_row(row: dict[str, Any]) -> list[str]:
    engine, others = row["engine_per_second"], row["list_per_second"]
    ratio = statistics.median(a / b for a, b in zip(engine, others, strict=True))
    rates = [statistics.median(engine), min(engine), max(engine), statistics.median(others)]
    return [
        row["trace"],
        *(f"{rate / 1e6:.2f}" for rate in rates),
        f"{ratio:.2f}",
        f"{statistics.median(row['monitor_per_second']) / 1e6:.2f}",
        f"{row['live_objects']:,}",
    ]


def _error_row(errors: Errors) -> list[str]:
    columns = [f"{f(e):.4f}" for e in (errors.linear, errors.log) for f in (statistics.median, max)]
    return [f"{errors.trace}, {errors.sample}", str(len(errors.linear)), *columns]


def _memory_row(row: dict[str, int]) -> list[str]:
    return [
        f"{row['keys']:,}",
        f"{row['samples']:,}",
        f"{row['live_objects']:,}",
        f"{row['live_bytes'] / 1000:,.0f}",
        f"{row['peak_bytes'] / 1000:,.0f}",
    ]
