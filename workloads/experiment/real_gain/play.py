"""A mix played on real servers, in time that is compressed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import redis

from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix, Requests
from workloads.experiment.gain.server_parts import BUCKET_BYTES
from workloads.experiment.gain.simulated_server import BASELINE_BYTES
from workloads.experiment.gain.simulation import Outcome
from workloads.local_server import LocalServer, equal_shares, running_servers, settled_sizes
from workloads.lookaside import LookAsideClient
from workloads.node_programs import NodeServer, NodeSettings

# The default, which is for cycles of an hour.
RSS_WAIT_SECONDS = 60.0
STEP_SECONDS = 0.02
# Between two looks at the sizes.
WATCH_STEPS = 3
Adaptation = Callable[[dict[str, LocalServer]], AbstractContextManager[object]]
# Few, so that the buffers of the questions hardly count as what a server holds beside its keys.
PIPELINE_COMMANDS = 50
# sizeof(dictEntry) and sizeof(robj), of Redis 7.0.
_ENTRY_BYTES, _OBJECT_BYTES = 24, 16
# Enough for the server's own buffers not to count.
_SOME_KEYS, _LONG_SECONDS = 10_000, 100_000


def node_settings(mix: Mix, cycle_seconds: float) -> NodeSettings:
    """Make settings for cycles of ``cycle_seconds``."""
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
class MemoryTaken:
    """What a server's memory goes to, in bytes.

    Attributes:
        weights: of each key by its number, shape (keys,), without its part of the hash tables.
        beside_bytes: what the server holds without keys, beyond ``BASELINE_BYTES``.
        whole_weights: of each key, same shape, with its part of all that the server holds beyond
            ``BASELINE_BYTES``.
    """

    weights: npt.NDArray[np.float64]
    beside_bytes: int
    whole_weights: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Played:
    """Holds what was measured.

    Attributes:
        most_bytes: greatest sum of ``maxmemory`` that was seen.
        late_seconds: by which the load was behind its schedule, at most.
        taken: of each server, what its memory went to.
    """

    outcome: Outcome
    most_bytes: int
    late_seconds: float
    taken: list[MemoryTaken]


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
        adapted = stack.enter_context(ExitStack())
        adapted.enter_context(adaptation(running))
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
        adapted.close()  # it would set what the questions unset
        taken = [
            memory_taken(server.client, one.sizes_bytes, expires=bool(of.ttl_seconds))
            for server, one, of in zip(running.values(), requests, mix.servers, strict=True)
        ]
    return Played(Outcome(mix, reads, misses, sizes), most_bytes, late_seconds, taken)


def _request(
    client: LookAsideClient, keys: npt.NDArray[np.int64], sizes_bytes: npt.NDArray[np.uint32]
) -> None:
    # Backends are accounted for by the outcome.
    texts = [b"%d" % key for key in keys.tolist()]
    client.request(texts, sizes_bytes[keys].tolist(), [0.0] * len(keys))


def memory_taken(
    client: redis.Redis, sizes_bytes: npt.NDArray[np.uint32], *, expires: bool = False
) -> MemoryTaken:
    """Measure what the server's keys take; ``sizes_bytes`` are key and value. Empties the server.

    Keys that it does not hold weigh what others of their size do that are put there;
    ``expires``: with a TTL.
    """
    # For the buffers of the questions keys would be evicted, and each command that is new to the
    # server would take a histogram of 24 KiB.
    client.config_set("maxmemory", 0, "latency-tracking", "no")
    held = _counted(client), memory_usages(client, np.arange(len(sizes_bytes)))
    client.flushall()
    beside, *_ = _counted(client)
    some = np.argsort(sizes_bytes, kind="stable")
    some = some[np.linspace(0, len(some) - 1, min(len(some), _SOME_KEYS)).astype(np.intp)]
    _put(client, some, sizes_bytes[some], expires=expires)
    put = _counted(client), memory_usages(client, some)
    client.flushall()
    usages = held[1].copy()
    gone = np.isnan(usages)
    usages[gone] = np.interp(sizes_bytes[gone], sizes_bytes[some], put[1])
    (counted, keys, buckets), known = held if not gone.all() else put
    mean_usage = float(np.nanmean(known))
    # MEMORY USAGE leaves out what a key takes where the TTLs are.
    unknown = (counted - beside - buckets * BUCKET_BYTES) / keys - mean_usage
    spread = (counted - BASELINE_BYTES) / keys - mean_usage
    return MemoryTaken(usages + unknown, beside - BASELINE_BYTES, usages + spread)


def _put(
    client: redis.Redis,
    keys: npt.NDArray[np.intp],
    sizes_bytes: npt.NDArray[np.uint32],
    *,
    expires: bool,
) -> None:
    """Put objects as the load does."""
    for start in range(0, len(keys), PIPELINE_COMMANDS):
        part = slice(start, start + PIPELINE_COMMANDS)
        pipeline = client.pipeline(transaction=False)
        for key, size in zip(keys[part].tolist(), sizes_bytes[part].tolist(), strict=True):
            name = str(key)
            pipeline.set(
                name, bytes(max(1, size - len(name))), ex=_LONG_SECONDS if expires else None
            )
        pipeline.execute()


def _counted(client: redis.Redis) -> tuple[int, int, int]:
    """Count bytes as maxmemory does, keys, and buckets of the hash tables, all of one time."""
    pipeline = client.pipeline(transaction=True)
    pipeline.info()
    pipeline.memory_stats()
    info, stats = pipeline.execute()
    counted = counted_bytes(info)
    if "db0" not in info:
        return counted, 0, 0
    keys, with_ttl = info["db0"]["keys"], info["db0"]["expires"]
    # src/object.c, getMemoryOverheadData: beside buckets it counts two headers of each key.
    tables = stats["db.0"]
    main = tables["overhead.hashtable.main"] - keys * (_ENTRY_BYTES + _OBJECT_BYTES)
    expires = tables["overhead.hashtable.expires"] - with_ttl * _ENTRY_BYTES
    return counted, keys, (main + expires) // BUCKET_BYTES


def counted_bytes(memory: Mapping[str, Any]) -> int:
    """Return what a server compares with its ``maxmemory``, of its ``INFO``."""
    return int(memory["used_memory"]) - int(memory["mem_not_counted_for_evict"])


def memory_usages(client: redis.Redis, keys: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """``MEMORY USAGE`` of keys, by their numbers, same shape; ``nan``: it is not there."""
    usages: list[int | None] = []
    for start in range(0, len(keys), PIPELINE_COMMANDS):
        pipeline = client.pipeline(transaction=False)
        for key in keys[start : start + PIPELINE_COMMANDS].tolist():
            pipeline.memory_usage(str(key))
        usages += pipeline.execute()
    return np.array([np.nan if usage is None else usage for usage in usages], dtype=np.float64)
