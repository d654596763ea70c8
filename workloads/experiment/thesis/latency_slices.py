"""Slices of a waiting client's latencies, of monitored servers and others (Figure 8.4)."""

from __future__ import annotations

import random
import subprocess
from typing import Any

from workloads.bench.sampling.slices import (
    KEYS,
    PERCENTILES,
    VALUE_BYTES,
    Kind,
    LoadProgram,
    MedianRatio,
    median_ratio,
)
from workloads.bench.sampling.states import (
    MODULE,
    MONITOR,
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
from workloads.experiment.study import Data, Scope, StudyError
from workloads.local_server import LocalServer

SKEW = 0.99
GET = Kind("get", 1)
OVERLOAD = Kind("get", 64)
CLIENTS = (1, 50)
ROUNDS, QUICK_ROUNDS = 13, 1
SLICE_SECONDS, QUICK_SLICE_SECONDS = 0.1, 0.04
_AS_USED = ("R=0.01", "R=1")  # as by default, and of every key
SAMPLED = [one for one in (*PATCH, *MODULE) if one.name.endswith(_AS_USED)]
STATES = [STOCK, STOCK_AGAIN, OTHER_STOCK, OFF, *SAMPLED, MONITOR]
NULLS = (STOCK_AGAIN.name, OTHER_STOCK.name)
IN_USE = tuple(one.name for one in SAMPLED if one.rate == 0.01)


def measure(scope: Scope) -> Data:
    """Slices of all states in random order, in fresh servers each round.

    Raises:
        StudyError: there is no C compiler for the client.
    """
    rounds, seconds = (
        (QUICK_ROUNDS, QUICK_SLICE_SECONDS) if scope.is_quick else (ROUNDS, SLICE_SECONDS)
    )
    slices: list[dict[str, Any]] = []
    try:
        with divided_cores() as server_core, LoadProgram() as load, Consumer() as consumer:
            for done, seed in enumerate(scope.seeds):
                order = random.Random(seed)
                for number in range(rounds):
                    share = (done + number / rounds) / len(scope.seeds)
                    scope.progress(f"seed {seed}, round {number + 1} of {rounds}", share)
                    for one in _round(load, consumer, server_core, order, seconds):
                        slices.append({"seed": seed, "round": number, **one})
    except subprocess.CalledProcessError as error:
        raise StudyError(f"the client cannot be compiled or run (it needs cc): {error}") from error
    return {
        "percentiles": list(PERCENTILES),
        "rounds": rounds,
        "slice_seconds": seconds,
        "keys": KEYS,
        "value_bytes": VALUE_BYTES,
        "slices": slices,
    }


def _round(
    load: LoadProgram, consumer: Consumer, core: set[int], order: random.Random, seconds: float
) -> list[dict[str, Any]]:
    seed = order.getrandbits(32)

    def overload(server: LocalServer) -> None:
        load.run(server, OVERLOAD, seconds, seed)

    found = []
    with Servers(consumer, overload, core, order) as servers:
        for clients in order.sample(CLIENTS, len(CLIENTS)):
            for state in order.sample(STATES, len(STATES)):
                with servers.held_in(state) as server:
                    # Whatever came before, the server's memory is in the caches again.
                    for length in (seconds / 10, seconds):
                        one = load.run(server, GET, length, seed, clients=clients, skew=SKEW)
                found.append(
                    {
                        "state": state.name,
                        "clients": clients,
                        "latency_us": [round(value * 1e6, 3) for value in one.latency_seconds],
                        "cpu_us": round(one.cpu_seconds * 1e6, 3),
                    }
                )
    return found


def slices_of(data: Data, state: State | str, clients: int, seed: int | None = None) -> list[Data]:
    """The slices of a state, in the order of the rounds."""
    name = state if isinstance(state, str) else state.name
    return [
        one
        for one in data["slices"]
        if (one["state"], one["clients"]) == (name, clients) and seed in (None, one["seed"])
    ]


def latencies(data: Data, slices: list[Data], percentile: float) -> list[float]:
    """Microseconds at a percentile, of each slice."""
    place = data["percentiles"].index(percentile)
    return [one["latency_us"][place] for one in slices]


def ratio(data: Data, state: str, clients: int, seed: int | None = None) -> MedianRatio:
    """Compare median latencies with those of the stock server of the same round."""
    return median_ratio(
        latencies(data, slices_of(data, state, clients, seed), 50.0),
        latencies(data, slices_of(data, STOCK, clients, seed), 50.0),
    )
