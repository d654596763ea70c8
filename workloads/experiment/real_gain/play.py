"""A mix played on real servers, in time that is compressed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.experiment.gain.mix import Mix
from workloads.experiment.gain.recorded_mix import Requests
from workloads.experiment.gain.simulation import Outcome
from workloads.experiment.real_gain.key_weights import key_weights
from workloads.interruption import uninterrupted
from workloads.local_server import LocalServer, settled_sizes
from workloads.lookaside import LookAsideClient

STEP_SECONDS = 0.02
# Between two looks at the sizes.
WATCH_STEPS = 3

Adaptation = Callable[[dict[str, LocalServer]], AbstractContextManager[object]]


@dataclass(frozen=True, eq=False)
class Played:
    """What was measured.

    Attributes:
        most_bytes: greatest sum of ``maxmemory`` that was seen.
        late_seconds: by which the load was behind its schedule, at most.
        key_weights: of each server, what each of its keys takes in it; bytes.
    """

    outcome: Outcome
    most_bytes: int
    late_seconds: float
    key_weights: list[npt.NDArray[np.float64]]


def play(
    mix: Mix, requests: Sequence[Requests], cycle_seconds: float, adaptation: Adaptation
) -> Played:
    """Start the servers with equal shares, and ``adaptation`` with them; read each key through its
    server, in the mix's order, evenly over cycles that take ``cycle_seconds``.

    Raises:
        RuntimeError, OSError: a server failed; everything is stopped.
    """
    count = len(mix.servers)
    reads, misses, sizes = (np.zeros((mix.cycles, count)) for _ in range(3))
    most_bytes, late_seconds = 0, 0.0
    with ExitStack() as stack:
        running: dict[str, LocalServer] = {}
        for server in mix.servers:
            settings = {"maxmemory": mix.budget_bytes // count, "maxmemory-policy": "allkeys-lru"}
            with uninterrupted():
                running[server.name] = stack.enter_context(LocalServer(settings))
        stack.enter_context(adaptation(running))
        faster = cycle_seconds / mix.cycle_seconds
        clients = [
            stack.enter_context(
                LookAsideClient(one.url, ttl_seconds=server.ttl_seconds * faster or None)
            )
            for one, server in zip(running.values(), mix.servers, strict=True)
        ]
        steps_a_cycle = max(1, round(cycle_seconds / STEP_SECONDS))
        began = time.monotonic()
        for cycle in range(mix.cycles):
            before = [client.tally.copy() for client in clients]
            steps = [one.steps(cycle, steps_a_cycle) for one in requests]
            for step in range(steps_a_cycle):
                due = began + (cycle + step / steps_a_cycle) * cycle_seconds
                late_seconds = max(late_seconds, time.monotonic() - due)
                time.sleep(max(0.0, due - time.monotonic()))
                for client, one, parts in zip(clients, requests, steps, strict=True):
                    _request(client, parts[step], one.sizes_bytes)
                if step % WATCH_STEPS == 0 or step == steps_a_cycle - 1:
                    now = settled_sizes(running)
                    most_bytes = max(most_bytes, sum(now.values()))
            sizes[cycle] = list(now.values())
            for place, (client, earlier) in enumerate(zip(clients, before, strict=True)):
                tally = client.tally.minus(earlier)
                reads[cycle, place] = tally.requests
                misses[cycle, place] = tally.requests - tally.hits
        weights = [
            key_weights(server.client, one.sizes_bytes)
            for server, one in zip(running.values(), requests, strict=True)
        ]
    return Played(Outcome(mix, reads, misses, sizes), most_bytes, late_seconds, weights)


def _request(
    client: LookAsideClient, keys: npt.NDArray[np.int64], sizes_bytes: npt.NDArray[np.uint32]
) -> None:
    # Backends are accounted for by the outcome.
    texts = [b"%d" % key for key in keys.tolist()]
    client.request(texts, sizes_bytes[keys].tolist(), [0.0] * len(keys))
