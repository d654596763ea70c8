"""The demonstration's node: three servers with unequal demands and backends, and their loads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workloads.arguments import TRACES_FOLDER, TWITTER, trace_file
from workloads.load import Load, trace_load, zipf_load
from workloads.ycsb.client import YcsbLoad, ycsb_draws

BUDGET_BYTES = 48 << 20
CACHE_LATENCY_SECONDS = 0.0002
TRACE_VARIABLE = "SPREDS_TRACE"
SHARED_TRACE = trace_file(TRACES_FOLDER, TWITTER)


@dataclass(frozen=True)
class DemoServer:
    """Describes one application's cache.

    Attributes:
        weight: w of (8.1).
        backend_latency_seconds: bd of (8.2), the mean.
        rate_per_second: f.
        load: what the application asks for.
        ycsb: where YCSB is its client, what it is told; ``load`` is then drawn alike, but is not
            what it sends.
    """

    name: str
    weight: float
    backend_latency_seconds: float
    rate_per_second: float
    load: Load
    ycsb: YcsbLoad | None = None


def find_trace(wanted: Path | None) -> Path | None:
    """The trace asked for, by the option or the environment, or the shared one if it is there."""
    named = wanted or (Path(os.environ[TRACE_VARIABLE]) if TRACE_VARIABLE in os.environ else None)
    return named or (SHARED_TRACE if SHARED_TRACE.exists() else None)


def demo_servers(
    seed: int, seconds: float, trace: Path | None, with_ycsb: bool = False
) -> list[DemoServer]:
    """The servers, each with a load of ``seconds``; one seed gives one load.

    * ``catalogue``: a slow backend and a working set larger than an equal share; YCSB drives it if
      that is asked for, and its keys are then by no seed;
    * ``sessions``: a small working set, all of which fits with room to spare;
    * ``timeline``: the trace, if there is one, and in the middle between them.

    Rates are such that an object lives well over a second, Redis' clock for LRU, in any split.

    Raises:
        TraceError: the trace cannot be read or is too short.
    """
    catalogue = _catalogue(seed, round(3000 * seconds), with_ycsb)
    sessions = DemoServer(
        "sessions",
        2.0,
        0.010,
        2000.0,
        zipf_load(
            request_count=round(2000 * seconds),
            key_count=6_000,
            skew=0.7,
            mean_bytes=600,
            backend_latency_seconds=0.010,
            seed=seed + 1_000_003,
        ),
    )
    if trace:
        timeline_load = trace_load(
            trace,
            request_count=round(2500 * seconds),
            shift=True,
            backend_latency_seconds=0.020,
            seed=seed + 2_000_003,
        )
    else:
        timeline_load = zipf_load(
            request_count=round(2500 * seconds),
            key_count=60_000,
            skew=1.0,
            mean_bytes=200,
            backend_latency_seconds=0.020,
            seed=seed + 2_000_003,
        )
    return [catalogue, sessions, DemoServer("timeline", 1.0, 0.020, 2500.0, timeline_load)]


def _catalogue(seed: int, request_count: int, with_ycsb: bool) -> DemoServer:
    backend_latency_seconds = 0.080
    ycsb = None
    if with_ycsb:
        ycsb = YcsbLoad(
            key_count=50_000,
            value_bytes=876,  # its keys have 23 or 24
            request_count=request_count,
            rate_per_second=3000.0,
            backend_latency_seconds=backend_latency_seconds,
            seed=seed,
        )
        load = ycsb_draws(ycsb)
    else:
        load = zipf_load(
            request_count=request_count,
            key_count=50_000,
            skew=0.8,
            mean_bytes=900,
            backend_latency_seconds=backend_latency_seconds,
            seed=seed,
        )
    return DemoServer("catalogue", 1.0, backend_latency_seconds, 3000.0, load, ycsb)
