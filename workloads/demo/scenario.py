"""The demonstration's node: three servers with unequal demands and backends, and their loads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workloads.load import Load, trace_load, zipf_load
from workloads.shared_traces import TRACES_FOLDER, TWITTER

BUDGET_BYTES = 48 << 20
CACHE_LATENCY_SECONDS = 0.0002
TRACE_VARIABLE = "SPREDS_TRACE"
SHARED_TRACE = TRACES_FOLDER / TWITTER


@dataclass(frozen=True)
class DemoServer:
    """One application's cache.

    Attributes:
        weight: w of (8.1).
        backend_latency_seconds: bd of (8.2), the mean.
        rate_per_second: f.
        load: what the application asks for.
    """

    name: str
    weight: float
    backend_latency_seconds: float
    rate_per_second: float
    load: Load


def find_trace(wanted: Path | None) -> Path | None:
    """The trace asked for, by the option or the environment, or the shared one if it is there."""
    named = wanted or (Path(os.environ[TRACE_VARIABLE]) if TRACE_VARIABLE in os.environ else None)
    return named or (SHARED_TRACE if SHARED_TRACE.exists() else None)


def demo_servers(seed: int, seconds: float, trace: Path | None) -> list[DemoServer]:
    """The servers, each with a load of ``seconds``; one seed gives one load.

    * ``catalogue``: a slow backend and a working set larger than an equal share;
    * ``sessions``: a small working set, all of which fits with room to spare;
    * ``timeline``: the trace, if there is one, and in the middle between them.

    Rates are such that an object lives well over a second, Redis' clock for LRU, in any split.

    Raises:
        TraceError: the trace cannot be read or is too short.
    """
    catalogue = DemoServer(
        "catalogue",
        1.0,
        0.080,
        3000.0,
        zipf_load(
            request_count=round(3000 * seconds),
            key_count=50_000,
            skew=0.8,
            mean_bytes=900,
            backend_latency_seconds=0.080,
            seed=seed,
        ),
    )
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
