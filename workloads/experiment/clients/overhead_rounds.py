"""Rounds of other people's clients on servers that sample, and on others that do not."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from workloads.bench.sampling.slices import processor_times
from workloads.bench.sampling.states import (
    MODULE,
    OFF,
    OTHER_STOCK,
    PATCH,
    STOCK,
    STOCK_AGAIN,
    Consumer,
    Servers,
    State,
    divided_cores,
)
from workloads.experiment.clients.overhead_loads import (
    ClientLoad,
    MixedLoad,
    RedisBenchmark,
    Ycsb,
    fill_mixed,
)
from workloads.experiment.harness.study import Data, Scope, StudyError
from workloads.ycsb.build import YcsbError, ycsb_class_path

RATE = 0.01
MODULE_ON = next(state for state in MODULE if state.rate == RATE)
PATCH_ON = next(state for state in PATCH if state.rate == RATE)
STATES = (STOCK, STOCK_AGAIN, OTHER_STOCK, MODULE_ON, OFF, PATCH_ON)
ROUNDS_A_SEED = 2
SLICE_SECONDS, QUICK_SLICE_SECONDS = 0.2, 0.05
YCSB_SECONDS = 1.0
METRICS = ("throughput", "p50", "p99", "processor time of an operation")


def measure(scope: Scope) -> Data:
    """Rounds of all loads on all states in a random order, in new processes each round.

    Raises:
        StudyError: YCSB or the mixed load cannot be built, or a client failed.
    """
    scope.progress("building the clients", 0.0)
    with tempfile.TemporaryDirectory(prefix="spreds-clients-") as name:
        try:
            ycsb_class_path()
            loads = _loads(Path(name), scope.is_quick)
            return _measured(scope, loads)
        except subprocess.CalledProcessError as error:
            raise StudyError(
                f"{error.cmd[0]} failed: {error.stderr or error.returncode}"
            ) from error
        except YcsbError as error:
            raise StudyError(str(error)) from error


def _loads(folder: Path, is_quick: bool) -> list[ClientLoad]:
    commands = ("get",) if is_quick else ("get", "set")
    loads: list[ClientLoad] = [
        *(
            RedisBenchmark(command, pipeline, per_second)
            for command in commands
            for pipeline, per_second in ((1, 60_000.0), (16, 350_000.0))
        ),
        *(
            MixedLoad(folder, pattern, pipeline)
            for pattern in (("Gaussian",) if is_quick else ("uniform", "Gaussian"))
            for pipeline in (1, 4)
        ),
    ]
    # A JVM for each state takes seconds.
    return loads if is_quick else [*loads, Ycsb(folder, 12_000.0)]


def _measured(scope: Scope, loads: list[ClientLoad]) -> Data:
    rounds = 1 if scope.is_quick else ROUNDS_A_SEED
    plan = [(seed, number) for seed in scope.seeds for number in range(rounds)]
    seen: dict[str, dict[str, list[list[float]]]] = {
        load.name: {state.name: [] for state in STATES} for load in loads
    }
    with divided_cores() as core, Consumer() as consumer:
        for done, (seed, number) in enumerate(plan):
            order = random.Random(seed * 1_000_003 + number)
            with Servers(consumer, lambda _: None, core, order) as servers:
                for place, (load, state, found) in enumerate(_round(scope, servers, loads, order)):
                    share = (done + place / len(loads) / len(STATES)) / len(plan)
                    scope.progress(f"round {done + 1} of {len(plan)}, {load.name}", share)
                    seen[load.name][state.name].append(found)
    return {
        "rounds": len(plan),
        "seen": seen,
    }


def _round(
    scope: Scope, servers: Servers, loads: list[ClientLoad], order: random.Random
) -> Iterator[tuple[ClientLoad, State, list[float]]]:
    """Values are in the order of ``METRICS``."""
    for state in (STOCK, OTHER_STOCK, OFF):
        with servers.held_in(state) as server:
            fill_mixed(server)
    for load in order.sample(loads, len(loads)):
        seconds = QUICK_SLICE_SECONDS if scope.is_quick else SLICE_SECONDS
        if isinstance(load, Ycsb):
            seconds = YCSB_SECONDS
        for state in order.sample(STATES, len(STATES)):
            with servers.held_in(state) as server:
                before, _ = processor_times(server)
                operations, *of_client = load.run(server, seconds)
                after, _ = processor_times(server)
                yield load, state, [*of_client, (after - before) / operations]
