"""A mix played on real servers, in time that is compressed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import redis

from workloads.embedded_sidecar import NodeServer, NodeSettings
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix, Requests
from workloads.experiment.gain.simulated_server import BASELINE_BYTES
from workloads.experiment.gain.simulation import Outcome
from workloads.local_server import LocalServer, equal_shares, running_servers, settled_sizes
from workloads.lookaside import LookAsideClient

# The default, which is for cycles of an hour.
RSS_WAIT_SECONDS = 60.0
STEP_SECONDS = 0.02
# Between two looks at the sizes.
WATCH_STEPS = 3
Adaptation = Callable[[dict[str, LocalServer]], AbstractContextManager[object]]
PIPELINE_COMMANDS = 1000


def node_settings(mix: Mix, cycle_seconds: float) -> NodeSettings:
    """For cycles of ``cycle_seconds``."""
    return NodeSettings(
        servers=[
            NodeServer(server.name, server.weight, server.backend_latency_seconds)
            for server in mix.servers
        ],
        budget_bytes=mix.budget_bytes,
        cycle_seconds=cycle_seconds,
        rss_wait_seconds=RSS_WAIT_SECONDS * cycle_seconds / mix.cycle_seconds,
        cache_latency_seconds=CACHE_LATENCY_SECONDS,
    )


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
    count, names = len(mix.servers), [server.name for server in mix.servers]
    reads, misses, sizes = (np.zeros((mix.cycles, count)) for _ in range(3))
    most_bytes, late_seconds = 0, 0.0
    with ExitStack() as stack:
        running = stack.enter_context(running_servers(equal_shares(names, mix.budget_bytes)))
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


def key_weights(
    client: redis.Redis, sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    """Bytes of each key; shape as ``sizes_bytes``, of key and value, by the key's number.

    What the server holds beside keys and beyond ``BASELINE_BYTES``, such as its hash table, is
    shared out evenly. Keys that it does not hold weigh what others of their size do.
    """
    counted = counted_bytes(client)  # before the questions, which take buffers
    usages = memory_usages(client, len(sizes_bytes))
    known = usages[~np.isnan(usages)]
    if not len(known):
        return sizes_bytes.astype(np.float64)
    beside = (counted - BASELINE_BYTES - float(known.sum())) / len(known)
    return usages_by_size(usages, sizes_bytes) + np.float64(beside)


def counted_bytes(client: redis.Redis) -> int:
    """What the server compares with its ``maxmemory``."""
    memory = client.info("memory")
    return int(memory["used_memory"]) - int(memory["mem_not_counted_for_evict"])


def usages_by_size(
    usages: npt.NDArray[np.float64], sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    """``memory_usages``, and for keys that are not there what others of their size take."""
    held = ~np.isnan(usages)
    order = np.argsort(sizes_bytes[held], kind="stable")
    found = np.interp(sizes_bytes, sizes_bytes[held][order], usages[held][order])
    return np.asarray(found, dtype=np.float64)


def memory_usages(client: redis.Redis, key_count: int) -> npt.NDArray[np.float64]:
    """``MEMORY USAGE`` of each key, by its number, shape (key_count,); ``nan``: it is not there."""
    usages: list[int | None] = []
    for start in range(0, key_count, PIPELINE_COMMANDS):
        pipeline = client.pipeline(transaction=False)
        for key in range(start, min(key_count, start + PIPELINE_COMMANDS)):
            pipeline.memory_usage(str(key))
        usages += pipeline.execute()
    return np.array([np.nan if usage is None else usage for usage in usages], dtype=np.float64)
