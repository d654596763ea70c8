"""Predicted against measured miss ratios of a real server: raw, corrected and anchored."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.curves.monitor import ServerMonitor
from sidecar.receiver import SampleReceiver
from sidecar.servers.server_stats import ServerStats
from sidecar.traces.reader import load_trace
from workloads.experiment.fast_replay import FastServer, Load, replay
from workloads.local_server import built

HELP = "replay traces into real Redis at five sizes; compare the curves with what it measured"
SHARES = (0.05, 0.10, 0.25, 0.50, 1.0)
FORMS = ("raw", "corrected", "anchored")
_SPEED = 15.0
_REQUESTS_PER_SECOND = 2000.0
_WARM_SHARE = 0.25
_TTL_SECONDS = 60.0

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Case:
    trace: str
    policy: str = "allkeys-lru"
    with_ttls: bool = False

    @property
    def name(self) -> str:
        return f"{self.trace} {self.policy}{' with TTLs' if self.with_ttls else ''}"


QUICK_CASES = (_Case("twitter"), _Case("orm-busy"), _Case("zipf"))
CASES = (
    *QUICK_CASES,
    _Case("twitter", with_ttls=True),
    _Case("orm-busy", "allkeys-lfu"),
    _Case("zipf", "allkeys-lfu"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="allkeys-lru only, shorter traces")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"), metavar="FOLDER")
    parser.add_argument("--server", default="bin/redis-server", help="which of build/ to measure")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0: measured and printed; 2: a trace is missing."""
    results = []
    for case in QUICK_CASES if arguments.quick else CASES:
        try:
            load = _load(case, arguments.traces, 200_000 if arguments.quick else 600_000)
        except (OSError, ValueError) as error:
            print(f"{case.name}: {error}", file=sys.stderr)
            return 2
        print(f"{case.name}: {len(load.keys)} requests, five sizes ...", file=sys.stderr)
        results.append(_measure(case, load, built(arguments.server)))
        _print(results[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def _load(case: _Case, traces: Path, requests: int) -> Load:
    """Sizes of orm-busy and Zipf are drawn (log-normal, 270 bytes in the mean), as are the TTLs:
    60 s for four keys in five."""
    random = np.random.default_rng(5)
    if case.trace == "zipf":
        cumulated = np.cumsum(1 / np.arange(1, 80_001) ** 0.99)
        drawn = np.searchsorted(cumulated / cumulated[-1], random.random(requests))
        names, keys = np.unique(drawn, return_inverse=True)
    else:
        file = {
            "twitter": "twitter/twitter_cluster52_1m.csv.zst",
            "orm-busy": "cache2k/orm-busy.trace.xz",
        }[case.trace]
        trace = load_trace(traces / file, limit=requests)
        names, first, keys = np.unique(trace.keys, return_index=True, return_inverse=True)
    sizes = np.clip(random.lognormal(5.2, 0.9, len(names)), 16, 20_000)
    if case.trace == "twitter":
        sizes = trace.sizes_bytes[first].astype(np.float64)
    ttls = np.where(random.random(len(names)) < 0.8, _TTL_SECONDS, 0.0)
    if not case.with_ttls:
        ttls[:] = 0
    return Load(case.name, keys.astype(np.int64), sizes.astype(np.int64), ttls)


def _measure(case: _Case, load: Load, server: Path) -> dict[str, Any]:
    """The table of one trace: servers of five sizes, each predicting all five."""
    *_, last, _ = _replay(case, load, server, 0, 1 << 40)
    beside = last.baseline_bytes
    sizes = [round(beside + share * (last.used_memory_bytes - beside)) for share in SHARES]
    budget = round(1.3 * sizes[-1])
    measured, predicted, laggings = [], [], []
    for size in sizes:
        monitor, warm, last, lagging = _replay(case, load, server, size, budget)
        hits = last.keyspace_hits - warm.keyspace_hits
        misses = last.keyspace_misses - warm.keyspace_misses
        measured.append(misses / (hits + misses))
        estimate = monitor.observe(last, budget)
        assert estimate is not None
        corrected = estimate.raw_curve.miss_ratio(sizes)
        # Without the correction, sampled reads are all reads there are.
        factor = monitor.histogram.reads / max(1.0, monitor.histogram.sampled_reads)
        forms = (np.minimum(1, corrected * factor), corrected, estimate.curve.miss_ratio(sizes))
        predicted.append([form.tolist() for form in forms])
        laggings.append(lagging)
    errors = np.array(predicted) - np.array(measured)  # (server, form, size)
    return {
        "case": case.name,
        "sizes_bytes": sizes,
        "measured": measured,
        "predicted": predicted,
        "pace": laggings,
        "mean_error": dict(zip(FORMS, np.abs(errors).mean(axis=(0, 2)).tolist(), strict=True)),
        "worst_error": dict(zip(FORMS, np.abs(errors).max(axis=(0, 2)).tolist(), strict=True)),
    }


def _replay(
    case: _Case, load: Load, server: Path, maxmemory_bytes: int, budget_bytes: int
) -> tuple[ServerMonitor, ServerStats, ServerStats, float]:
    """One run; the monitor counts from the end of the warming part, ``pace`` is 1 on time.

    Returns:
        The monitor, readings after warming and at the end, and how late the replay was.
    """
    with (
        tempfile.TemporaryDirectory(prefix="spreds-curves-") as folder,
        SampleReceiver(f"ipc://{folder}/samples") as receiver,
        FastServer(
            {
                "maxmemory": maxmemory_bytes,
                "maxmemory-policy": case.policy,
                "spreds-threshold": 1 << 22,
                "spreds-endpoint": receiver.endpoint,
                "hz": 20,
            },
            server,
            _SPEED,
        ) as redis,
    ):
        monitor = ServerMonitor(case.name, half_life_seconds=1e12)

        def drain() -> None:
            while batches := receiver.receive(0.0):
                for batch in batches:
                    monitor.take(batch)

        def read() -> ServerStats:
            config = {str(key): value for key, value in redis.client.config_get("*").items()}
            return ServerStats.from_info(redis.client.info(), config, time.time())

        monitor.observe(read(), budget_bytes)
        warm_end = round(_WARM_SHARE * len(load.keys))
        readings, paces = [], []
        for part in (load.part(0, warm_end), load.part(warm_end, len(load.keys))):
            paces.append(replay(redis, part, _REQUESTS_PER_SECOND, drain))
            time.sleep(0.1)
            drain()
            readings.append(read())
            if len(readings) == 1:
                monitor.observe(readings[0], budget_bytes)
                monitor.decay(0.0)
        return monitor, readings[0], readings[1], max(paces)


def _print(result: dict[str, Any]) -> None:
    print(f"\n{result['case']}")
    heads = "".join(f"{share:>9.0%}" for share in SHARES)
    print(f"{'of the working set':32}{heads}")
    print(f"{'measured':32}" + "".join(f"{ratio:9.4f}" for ratio in result["measured"]))
    for share, forms in zip(SHARES, result["predicted"], strict=True):
        for form, ratios in zip(FORMS, forms, strict=True):
            name = f"{form}, from the server at {share:.0%}"
            print(f"{name:32}" + "".join(f"{ratio:9.4f}" for ratio in ratios))
    for form in FORMS:
        mean, worst = result["mean_error"][form], result["worst_error"][form]
        print(f"{form:10} error: mean {mean:.4f}, worst {worst:.4f}")
    print(f"pace {max(result['pace']):.2f} (1 is on time)", flush=True)
