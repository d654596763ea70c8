"""``python -m workloads bench fleet``: time and memory of ``python -m infra.fleet``.

Plans of a fleet as planners write them, made up without planning: a thousand nodes in seconds.

Each node has a few servers whose miss ratio falls exponentially with their size, at a pace of
their own; rates swing over the day, and sizes go from equal shares towards better ones by and by.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan, WhatIf
from solver_lambda.documents.words import BACKEND_NOTE, backend_latency_words
from workloads.arguments import positive, seed
from workloads.processes import ROOT
from workloads.table import text_table

GIB = 1 << 30
FIRST_SECONDS = 1_794_000_000
WINDOW_SECONDS = 3600.0
BUDGETS = (0.8, 1.1, 1.25, 1.5)
TEAMS = ("sessions", "catalog", "checkout", "search", "timeline", "carts")
_STATING = ("sessions", "checkout", "carts")
CACHE_SECONDS = 0.0002
MIB = 1 << 20


@dataclass(frozen=True)
class MadeServer:
    """Attributes:
    pace_bytes: its miss ratio falls to 1/e with so much memory more.
    """

    name: str
    weight: float
    reads_per_second: float
    backend_seconds: float
    pace_bytes: float

    @property
    def latency_words(self) -> str:
        """Return the words on latency, which some teams stated."""
        if self.name in _STATING:
            return backend_latency_words(self.backend_seconds, "team", None, None)
        return backend_latency_words(self.backend_seconds, "measured", self.backend_seconds, 1.0)

    def miss_ratio(self, size_bytes: float) -> float:
        return math.exp(-size_bytes / self.pace_bytes)

    def eat_seconds(self, size_bytes: float) -> float:
        return CACHE_SECONDS + self.miss_ratio(size_bytes) * self.backend_seconds


def plans_of_node(node: str, count: int, seed: int) -> Iterator[AdaptationPlan]:
    """Yield one plan an hour, from ``FIRST_SECONDS`` on."""
    chance = random.Random(f"{node} {seed}")
    budget = chance.choice((2, 4, 8, 16, 64)) * GIB
    tightness = chance.choice((0.1, 0.3, 1.0))
    servers = [
        MadeServer(
            name,
            weight=chance.choice((1.0, 1.0, 2.0, 0.5)),
            reads_per_second=chance.uniform(50, 8000),
            backend_seconds=chance.uniform(0.002, 0.2),
            pace_bytes=budget * tightness * chance.uniform(0.1, 0.9),
        )
        for name in chance.sample(TEAMS, chance.randint(2, 4))
    ]
    installed = budget // len(servers)
    sizes = [installed] * len(servers)
    demand = [s.weight * s.reads_per_second * s.backend_seconds * s.pace_bytes for s in servers]
    wanted = [int(budget * part / sum(demand)) for part in demand]
    late_seconds = chance.random()
    for cycle in range(count):
        before = sizes
        if cycle % 7 == 1:
            sizes = [size + (goal - size) // 3 for size, goal in zip(sizes, wanted, strict=True)]
        rates = [s.reads_per_second * (1 + 0.5 * math.sin(cycle / 24 * math.tau)) for s in servers]
        made_at = FIRST_SECONDS + cycle * WINDOW_SECONDS + late_seconds
        yield _plan(node, made_at, budget, servers, rates, before, sizes, installed)


def _plan(
    node: str,
    made_at: float,
    budget: int,
    servers: list[MadeServer],
    rates: list[float],
    before: list[int],
    after: list[int],
    installed: int,
) -> AdaptationPlan:
    shares = [s.weight * rate for s, rate in zip(servers, rates, strict=True)]

    def mean(sizes: list[int], ratio: float = 1.0) -> float:
        parts = zip(servers, shares, sizes, strict=True)
        return sum(share * s.eat_seconds(size * ratio) for s, share, size in parts) / sum(shares)

    moves = before != after
    reason = "gain: a better split was found" if moves else "small_gain: nothing is worth a move"
    return AdaptationPlan(
        node=node,
        cycle=int(made_at),
        observation_made_at_seconds=made_at,
        made_at_seconds=made_at + 1,
        budget_bytes=budget,
        method="certified",
        decision="apply" if moves else "keep",
        reason=reason,
        optimality_gap=0.0,
        mean_access_time_before_seconds=mean(before),
        mean_access_time_seconds=mean(after),
        servers=tuple(
            ServerPlan(
                name=s.name,
                maxmemory_before_bytes=old,
                maxmemory_bytes=new,
                hit_ratio_before=1 - s.miss_ratio(old),
                hit_ratio=1 - s.miss_ratio(new),
                eat_before_seconds=s.eat_seconds(old),
                eat_seconds=s.eat_seconds(new),
                marginal_gain_seconds_per_mebibyte=share
                / sum(shares)
                * (s.eat_seconds(new) - s.eat_seconds(new + MIB)),
                reason=reason + BACKEND_NOTE + s.latency_words,
                settings_version="2026-11-22T06:40:00+00:00-af66bbb5",
                weight=s.weight,
                request_rate_per_second=rate,
                installed_bytes=installed,
                eat_installed_seconds=s.eat_seconds(installed),
            )
            for s, rate, share, old, new in zip(servers, rates, shares, before, after, strict=True)
        ),
        what_if=tuple(WhatIf(round(budget * ratio), mean(after, ratio)) for ratio in BUDGETS),
        run_seconds=0.019184259999747155,
        run_memory_bytes=99_614_720,
        window_seconds=WINDOW_SECONDS,
    )


def write_plans(folder: Path, nodes: int, plans: int, seed: int = 1) -> int:
    """Write plans as a bucket has them, below ``folder``; return the bytes that were written."""
    written = 0
    for number in range(nodes):
        node = f"cache-{number:04d}"
        (folder / plan_key(node, 0)).parent.mkdir(parents=True)
        for plan in plans_of_node(node, plans, seed):
            written += (folder / plan_key(node, plan.cycle)).write_bytes(plan.dumps())
    return written


HELP = (
    "Ask all questions of infra.fleet about made-up plans: the first time, when all are read, and "
    "again, when they are kept. Wall-clock of the whole command, and its peak resident memory."
)
WANTED_SECONDS = 5.0
WANTED_BYTES = 1_000_000_000
AGAIN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=positive, default=1000, help="(default: 1000)")
    parser.add_argument("--plans", type=positive, default=100, help="of each (default: 100)")
    parser.add_argument("--seed", type=seed, default=1, help="(default: 1)")
    parser.add_argument("--json", action="store_true", help="figures only")


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1: slower or larger than wanted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = write_plans(folder / "fleet", arguments.nodes, arguments.plans, arguments.seed)
        command = [sys.executable, "-m", "infra.fleet", str(folder / "fleet"), "--json"]
        command += ["--cache", str(folder / "kept.duckdb")]
        runs = {
            "first": asked(command, folder),
            **{f"again {number + 1}": asked(command, folder) for number in range(AGAIN)},
        }
    count = arguments.nodes * arguments.plans
    met = all(s < WANTED_SECONDS and peak < WANTED_BYTES for s, peak in runs.values())
    if arguments.json:
        print(json.dumps({"plans": count, "bytes": written, "runs": runs, "met": met}))
    else:
        rows = [[name, f"{s:.2f} s", f"{b / 1e6:.0f} MB"] for name, (s, b) in runs.items()]
        print(f"{count:,} plans, {written / count:,.0f} bytes each")
        print(text_table(["", "wall-clock", "peak memory"], rows))
    return 0 if met else 1


def asked(command: list[str], folder: Path) -> tuple[float, int]:
    """Wall-clock seconds of one command, its start included, and its peak resident bytes.

    Raises:
        RuntimeError: it failed.
    """
    started = time.monotonic()
    with (folder / "answers.json").open("w") as output:
        process = subprocess.Popen(command, stdout=output, cwd=ROOT, stderr=subprocess.PIPE)
        assert process.stderr is not None
        words = process.stderr.read().decode()
        # Not the peak of all children so far.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(f"infra.fleet failed: {words.strip()}")
    return seconds, usage.ru_maxrss * 1024
