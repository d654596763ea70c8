"""``experiment gain``: SPREDS and its rivals on many mixes of load, in simulated time."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sidecar.config.sampling import DEFAULT_RATE
from sidecar.traces.file import TraceError
from solver_lambda.documents.reader import DocumentError
from workloads.arguments import output_file, positive, seed
from workloads.experiment.gain.mix import Mix, read_mix
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.recorded_mix import Requests, record
from workloads.experiment.gain.report import Score, score
from workloads.experiment.gain.rivals import (
    Climber,
    by_demand,
    by_working_set,
    one_shared_server,
)
from workloads.experiment.gain.simulation import Division, Outcome, simulate
from workloads.experiment.gain.spreds_division import SpredsDivision
from workloads.table import milliseconds, text_table

HELP = "how much of the possible gain SPREDS keeps, beside other ways to divide memory"
MIXES = Path(__file__).with_name("mixes")
QUICK = ("three", "swap", "loop-fits", "alternating", "growing", "equals")
# Of the second rate: so many objects are sampled at least, of the server that has the fewest.
SAMPLED_OBJECTS = 2000


class Task(NamedTuple):
    """What one process does: a mix with SPREDS at one rate and salt, or with all others."""

    path: Path
    seed: int
    rate: float | None = None
    salt: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--mix", action="append", metavar="NAME|FILE", help="one of them; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="six mixes, two salts")
    parser.add_argument("--salts", type=positive, metavar="N", help="default: 4; quick: 2")
    parser.add_argument("--seed", type=seed, default=1, help="of the requests and the salts")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures there")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 2: a mix cannot be read."""
    started = time.monotonic()
    names = arguments.mix or (QUICK if arguments.quick else sorted(p.stem for p in _bundled()))
    paths = [_path_of(name) for name in names]
    salts = arguments.salts or (2 if arguments.quick else 4)
    random = np.random.default_rng(arguments.seed)
    chosen = [int(salt) for salt in random.integers(1 << 64, size=salts, dtype=np.uint64)]
    tasks: list[Task] = []
    try:
        for path in paths:
            mix = read_mix(path)
            tasks.append(Task(path, arguments.seed))
            tasks += [
                Task(path, arguments.seed, rate, salt)
                for rate in (DEFAULT_RATE, _second_rate(mix, arguments.seed))
                for salt in chosen
            ]
    except (DocumentError, TraceError) as error:
        print(f"experiment gain: {error}", file=sys.stderr)
        return 2
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(_outcomes, tasks)
        for path in paths:
            outcomes = dict(next(done))
            for _ in range(2 * salts):
                outcomes.update(next(done))
            results.append(_judge(path.stem, outcomes))
            print(_told(results[-1]), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _bundled() -> Iterator[Path]:
    return MIXES.glob("*.toml")


def _path_of(name: str) -> Path:
    bundled = MIXES / f"{name}.toml"
    return bundled if bundled.exists() else Path(name)


def _second_rate(mix: Mix, seed: int) -> float:
    fewest = min(len(np.unique(np.concatenate(one.cycles))) for one in record(mix, seed))
    return float(min(1.0, max(DEFAULT_RATE, SAMPLED_OBJECTS / max(1, fewest))))


def _outcomes(task: Task) -> dict[str, Outcome]:
    mix = read_mix(task.path)
    requests = record(mix, task.seed)
    if task.rate is None:
        return _rivals(mix, requests)
    outcome = simulate(mix, requests, SpredsDivision(task.rate, task.salt))
    return {f"SPREDS, R = {task.rate:.3g}, salt {task.salt:016x}": outcome}


def _rivals(mix: Mix, requests: Sequence[Requests]) -> dict[str, Outcome]:
    def fixed(sizes: Sequence[int] | None = None) -> Outcome:
        return simulate(mix, requests, Division(), sizes)

    oracle = Oracle(mix, requests)
    return {
        "equal": fixed(),
        "static oracle": fixed(oracle.best_bytes()),
        "oracle of each window": oracle.best_of_each_window(),
        "by demand": fixed(by_demand(mix, requests)),
        "by working set": fixed(by_working_set(mix, requests)),
        "one shared server": one_shared_server(mix, requests),
        "climber": simulate(mix, requests, Climber()),
    }


def _judge(name: str, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    equal, static = outcomes["equal"], outcomes["static oracle"]
    scores = [score(division, one, equal, static) for division, one in outcomes.items()]
    return {
        "mix": name,
        "changes": equal.mix.changes,
        "equal_seconds": equal.access_seconds(),
        "scores": [one.to_json() for one in scores],
    }


def _told(result: dict[str, Any]) -> str:
    rows = []
    for one in (Score(**item) for item in result["scores"]):
        rows.append(
            [
                one.division,
                milliseconds(one.access_seconds),
                _percent(one.share),
                _percent(one.late_share),
                f"{one.loss_ratio:+.1%}",
                f"{one.worst_cycle_ratio:+.0%}",
                str(one.changes),
                f"{one.moved_bytes / (1 << 20):.0f} MiB",
            ]
        )
    header = ["division", "access", "share", "late", "to equal", "worst", "changes", "moved"]
    return f"\n{result['mix']}\n{text_table(header, rows)}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
