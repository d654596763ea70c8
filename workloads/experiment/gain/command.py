"""``experiment gain``: SPREDS and its rivals on many mixes of load, in simulated time."""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sidecar.config.node import FLOORS
from sidecar.traces.file import TraceError
from solver_lambda.documents.reader import DocumentError
from workloads.arguments import (
    ORM_BUSY,
    ORM_NIGHT,
    add_figures,
    add_traces,
    positive,
    seed,
    write_json,
)
from workloads.experiment.gain.mix import Mix, mix_files, record
from workloads.experiment.gain.oracle import Oracle, StatedErrors, stated_errors
from workloads.experiment.gain.report import Result, by_cycle, draw, summary, told
from workloads.experiment.gain.rivals import (
    Annealed,
    ByUse,
    Climber,
    by_demand,
    by_working_set,
    one_shared_server,
)
from workloads.experiment.gain.score import judge, score
from workloads.experiment.gain.simulation import Division, Outcome, simulate
from workloads.experiment.gain.spreds_division import SpredsDivision
from workloads.table import say

# Of the mix' own: in which equal shares are tried, to be as fast as a division is.
BUDGET_RATIOS = (0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
HELP = "how much of the possible gain SPREDS keeps, beside other ways to divide memory"


class Divided(NamedTuple):
    """What a division came to; the rest is SPREDS': ``salt`` (hexadecimal) of its samples, and
    whether its curves were as right as they claimed."""

    division: str
    outcome: Outcome
    salt: str = ""
    errors: StatedErrors | None = None


def divided_by_spreds(mix: Mix, seed: int, salt: int) -> list[Divided]:
    """Divide the memory by SPREDS, with one sample."""
    requests = record(mix, seed)
    division = SpredsDivision(None, salt)
    outcome = simulate(mix, requests, division)
    errors = stated_errors(mix, Oracle(mix, requests), division.observations)
    text = f"{salt:016x}"
    return [Divided(f"SPREDS, salt {text}", outcome, text, errors)]


def divided_with_floors(mix: Mix, seed: int, salt: int) -> list[Divided]:
    """Divide the memory by SPREDS, with a floor for each server."""
    division = SpredsDivision(None, salt, floor=FLOORS[1])
    return [Divided("SPREDS, floors", simulate(mix, record(mix, seed), division))]


def divided_by_rivals(mix: Mix, seed: int) -> list[Divided]:
    """Divide the memory by all others."""
    requests = record(mix, seed)

    def fixed(sizes: Sequence[int] | None = None) -> Outcome:
        return simulate(mix, requests, Division(), sizes)

    oracle = Oracle(mix, requests)
    return [
        Divided("equal", fixed()),
        Divided("static oracle", fixed(oracle.best_bytes())),
        Divided("oracle of each window", oracle.best_of_each_window()),
        Divided("by demand", fixed(by_demand(mix, requests))),
        Divided("by working set", fixed(by_working_set(mix, requests))),
        Divided("one shared server", one_shared_server(mix, requests)),
        Divided("climber", simulate(mix, requests, Climber())),
        Divided("by use", simulate(mix, requests, ByUse())),
    ]


def divided_by_annealing(mix: Mix, seed: int) -> list[Divided]:
    """Divide the memory by annealing each minute."""
    return [Divided("annealed", simulate(mix, record(mix, seed), Annealed(seed)))]


def equal_shares(mix: Mix, seed: int) -> dict[float, float]:
    """Return how fast equal shares of other budgets are, by their ratio to the mix' own."""
    requests, found = record(mix, seed), {}
    for ratio in BUDGET_RATIOS:
        other = replace(mix, budget_bytes=int(ratio * mix.budget_bytes))
        found[ratio] = simulate(other, requests, Division()).access_seconds()
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mix", action="append", metavar="NAME|FILE", help="run this one (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="run six mixes with two salts")
    parser.add_argument(
        "--salts", type=positive, metavar="N", help="how many samples (default: 4; quick: 2)"
    )
    parser.add_argument(
        "--seed", type=seed, default=1, help="seed of the requests and the salts (default: 1)"
    )
    add_figures(parser, "draw what each division gains")
    parser.add_argument(
        "--by-cycle", action="store_true", help="also print each cycle's mean access time"
    )
    parser.add_argument(
        "--floors", action="store_true", help='also with floor = "before" for each server'
    )
    parser.add_argument(
        "--strict", action="store_true", help="end with exit code 3 if a target is missed"
    )
    add_traces(parser, ORM_BUSY, ORM_NIGHT)


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 2: a mix cannot be read, or a package is missing; 3: a target is
    missed, where that is asked."""
    started = time.monotonic()
    try:
        if arguments.picture:
            _check_matplotlib()
        mixes = mix_files(arguments.mix, arguments.quick, arguments.traces)
    except (DocumentError, TraceError) as error:
        say(f"experiment gain: {error}")
        return 2
    count = arguments.salts or (2 if arguments.quick else 4)
    random = np.random.default_rng(arguments.seed)
    salts = [int(salt) for salt in random.integers(1 << 64, size=count, dtype=np.uint64)]
    results: list[Result] = []
    for result in _results(mixes, arguments.seed, salts, floors=arguments.floors):
        results.append(result)
        print(told(result), flush=True)
        if arguments.by_cycle:
            print(f"\n{by_cycle(result)}", flush=True)
        write_json(arguments.json, [one.to_json() for one in results])
    print(summary(results))
    say(f"{time.monotonic() - started:.0f} s")
    if arguments.picture:
        draw(results, arguments.picture)
    return 3 if arguments.strict and not all(one.is_met for one in results) else 0


def _check_matplotlib() -> None:
    """Raises DocumentError: before minutes have passed."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise DocumentError(
            "--picture needs the Python package 'matplotlib' (pip install matplotlib)"
        ) from error


def _results(
    mixes: dict[Path, Mix], seed: int, salts: list[int], *, floors: bool
) -> Iterator[Result]:
    """Yield the result of each mix, as soon as it and those before it are done."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        try:
            equal: dict[Path, Future[dict[float, float]]] = {}
            tasks: dict[Path, list[Future[list[Divided]]]] = {}
            for path, mix in mixes.items():
                equal[path] = pool.submit(equal_shares, mix, seed)
                tasks[path] = [
                    pool.submit(divided_by_rivals, mix, seed),
                    pool.submit(divided_by_annealing, mix, seed),
                    *(pool.submit(divided_by_spreds, mix, seed, salt) for salt in salts),
                    *(pool.submit(divided_with_floors, mix, seed, salt) for salt in salts[:floors]),
                ]
            for path, mix in mixes.items():
                divided = [one for task in tasks[path] for one in task.result()]
                yield _result(mix, divided, equal[path].result())
        except BaseException:
            # Waited for here: the pool's own end would take the others up again.
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _result(mix: Mix, divided: list[Divided], equal_seconds: dict[float, float]) -> Result:
    equal, static = (
        next(one.outcome for one in divided if one.division == wanted)
        for wanted in ("equal", "static oracle")
    )
    equal_seconds = {**equal_seconds, 1.0: equal.access_seconds()}
    scores = [
        score(one.division, one.outcome, equal, static, one.salt, one.errors, equal_seconds)
        for one in divided
    ]
    verdicts = judge(mix.targets, mix.changes, scores)
    return Result(mix.name, mix.description, mix.changes, scores, verdicts)
