"""What servers are told to hit under other policies, against servers that have these."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from sidecar.config.sampling import SamplingConfig
from workloads.arguments import ORM_BUSY, TWITTER, add_figures, add_traces, seed, write_json
from workloads.experiment.curve_cases import Case, load
from workloads.experiment.curve_prediction import Run, SampledBinary, measure, working_set
from workloads.experiment.curves import SERVERS
from workloads.experiment.fast_replay import Load
from workloads.local_server import built
from workloads.table import say, text_table

HELP = (
    "Replay loads into real servers under three policies, and hold what each is told to hit under "
    "the others, with the size that it has, against the servers that have them."
)
POLICIES = ("allkeys-lru", "allkeys-lfu", "allkeys-random")
SHARES = (0.1, 0.25, 0.5, 0.8)
LOADS = ("zipf-0.99", "zipf-0.8", "twitter", "orm-busy", "loop", "loop-and-zipf")
_QUICK_LOADS = ("loop-and-zipf",)
_REQUESTS, _QUICK_REQUESTS = 150_000, 40_000
_LOOP_KEYS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="run one short load")
    parser.add_argument("--server", choices=SERVERS, default="redis", help="(default: redis)")
    parser.add_argument(
        "--seed", type=seed, default=5, help="seed of loads and samples (default: 5)"
    )
    add_figures(parser)
    add_traces(parser, TWITTER, ORM_BUSY)


def loop(requests: int, keys: int, seed: int, *, with_zipf: bool) -> Load:
    """Return reads of all keys in turn, or as many of half of them beside a Zipf load."""
    random = np.random.default_rng(seed)
    asked = np.resize(np.arange(keys), requests)
    if with_zipf:
        others = keys + random.zipf(1.2, requests) % (3 * keys // 4)
        asked = np.where(random.random(requests) < 0.5, asked % (keys // 2), others)
    count = int(asked.max()) + 1
    sizes = np.clip(random.lognormal(5.2, 0.9, count), 16, 20_000).astype(np.int64)
    return Load("loop", asked.astype(np.int64), sizes, np.zeros(count))


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 2: a trace or a server is missing."""
    server = SERVERS[arguments.server]
    requests = _QUICK_REQUESTS if arguments.quick else _REQUESTS
    try:
        chosen = SampledBinary(server.name, built(server.stock_binary), built("lib/spreds.so"))
        loads = {
            name: loop(
                requests,
                _LOOP_KEYS * requests // _REQUESTS,
                arguments.seed,
                with_zipf="zipf" in name,
            )
            if name.startswith("loop")
            else load(Case(name), arguments.traces, requests, arguments.seed)
            for name in (_QUICK_LOADS if arguments.quick else LOADS)
        }
    except (OSError, ValueError) as error:
        say(f"experiment other-policies (--traces {arguments.traces}): {error}")
        return 2
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, part in loads.items():
            rows += _rows(name, _measured(pool, name, part, chosen, arguments.seed))
            write_json(arguments.json, rows)
    _print(rows)
    return 0


def _measured(
    pool: ProcessPoolExecutor, name: str, part: Load, chosen: SampledBinary, seed: int
) -> dict[str, list[Run]]:
    """Return a run for each policy and size."""
    empty_bytes, full_bytes = working_set(part, chosen)
    sizes = [round(empty_bytes + share * (full_bytes - empty_bytes)) for share in SHARES]
    runs: dict[str, list[Future[Run]]] = {
        policy: [
            pool.submit(
                measure,
                *(replace(Case(name), policy=policy), part, chosen, sizes, place, seed),
                SamplingConfig.live_objects,
            )
            for place in range(len(sizes))
        ]
        for policy in POLICIES
    }
    return {policy: [one.result() for one in futures] for policy, futures in runs.items()}


def _rows(name: str, runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """Return a row for each server and other policy: told and measured are what it misses there,
    less what it misses now."""
    return [
        {
            "load": name,
            "share": share,
            "has": policy,
            "other": other.value,
            "told": other.miss_ratios[place] - own.predicted[-1][place],
            "measured": runs[other.value][place].measured - own.measured,
            "error_ratio": other.error_ratio,
        }
        for policy in POLICIES
        for place, (share, own) in enumerate(zip(SHARES, runs[policy], strict=True))
        for other in own.other_policies
        if other.value in POLICIES
    ]


def _print(rows: list[dict[str, Any]]) -> None:
    head = ["load", "of its keys", "has", "told of", "told", "measured", "may be off by", "off by"]
    lines = [
        [
            *(row["load"], f"{row['share']:.0%}", row["has"], row["other"]),
            *(f"{row[key]:+.3f}" for key in ("told", "measured")),
            *(f"{row['error_ratio']:.3f}", f"{row['told'] - row['measured']:+.3f}"),
        ]
        for row in rows
    ]
    print(text_table(head, lines))
    for other in POLICIES:
        off = np.array([abs(r["told"] - r["measured"]) for r in rows if r["other"] == other])
        may = np.array([r["error_ratio"] for r in rows if r["other"] == other])
        if len(off):
            print(
                f"{other}: {len(off)} figures, {off.mean():.3f} off in the mean, {off.max():.3f} "
                f"at most; {np.mean(off <= may):.0%} within what they may be off by"
            )
