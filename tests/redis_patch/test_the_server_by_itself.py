"""What happens without a command for it: expiry, eviction, defragmentation, loading, threads."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from tests.redis_patch.sampled_server import SALT, SampledServer, ServerKind, named
from tests.redis_patch.wire_twin import DB_UNKNOWN, EVICTION, key_hash
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

MANY = [f"key:{number}" for number in range(500)]


def test_keys_expire_by_themselves(server: SampledServer) -> None:
    server.start()
    pipeline = server.client.pipeline(transaction=False)
    for key in MANY:
        pipeline.set(key, "v", px=1000)
    pipeline.execute()
    wait_until(lambda: server.client.dbsize() == 0, server.counters)
    expected = [f"{what} {key}" for key in MANY for what in ("write", "expiry")]
    assert Counter(named(server.records(), MANY)) == Counter(expected)


def test_each_eviction_is_recorded(kind: ServerKind) -> None:
    with SampledServer(kind, {"maxmemory": "8mb", "maxmemory-policy": "allkeys-lru"}) as server:
        server.start()
        pipeline = server.client.pipeline(transaction=False)
        keys = [f"key:{number}" for number in range(8000)]
        for key in keys:
            pipeline.set(key, "v" * 1024)
        pipeline.execute()
        server.client.config_set("maxmemory", 0)  # or the list of keys would evict some
        left = set(server.client.keys())
        evicted = [record.hash for record in server.records() if record.operation == EVICTION]
        gone = [key_hash(key.encode(), SALT) for key in keys if key.encode() not in left]
        assert Counter(evicted) == Counter(gone)
        assert len(evicted) == server.client.info("stats")["evicted_keys"] > 1000


def test_what_memory_forbids(kind: ServerKind) -> None:
    """On Redis 7.0 the module records what was asked for: documented."""
    with SampledServer(kind, {"maxmemory": "1", "maxmemory-policy": "noeviction"}) as server:
        server.start()
        assert isinstance(server.raw("SET k v"), redis.exceptions.OutOfMemoryError)
        assert server.raw("GET k") is None
        events = named(server.records(), ["k"])
        assert events == [*(["write k"] if kind.source == "module_70" else []), "miss k"]


def has_jemalloc(binary: Path) -> bool:
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return "malloc=jemalloc" in version.stdout


def test_active_defragmentation_changes_nothing(kind: ServerKind) -> None:
    if not has_jemalloc(kind.binary):
        pytest.skip("this server was built without the allocator that lets it defragment")
    settings = {
        "activedefrag": "yes",
        "active-defrag-ignore-bytes": "1",
        "active-defrag-threshold-lower": "1",
        "active-defrag-cycle-min": "25",
        "hz": "100",
    }
    with SampledServer(kind, settings) as server:
        server.start()
        client, kept = server.client, [f"key:{number}" for number in range(0, 20_000, 7)]
        for start in range(0, 20_000, 1000):
            client.mset({f"key:{number}": "v" * 100 for number in range(start, start + 1000)})
        gone = [f"key:{number}" for number in range(20_000) if number % 7]
        for start in range(0, len(gone), 1000):
            client.unlink(*gone[start : start + 1000])
        before = server.counters()["sampled"]
        reads = 0

        def has_moved() -> bool:
            nonlocal reads
            assert client.touch(*kept) == len(kept)
            reads += len(kept)
            return bool(client.info("stats")["active_defrag_hits"] > 100)

        wait_until(has_moved, lambda: client.info("memory"))
        server.records()
        assert before == 20_000 + len(gone)
        assert server.counters()["sampled"] - before == reads


def test_everything_is_flushed(server: SampledServer) -> None:
    server.start()
    flushes = ["FLUSHALL ASYNC", "FLUSHALL SYNC", "FLUSHALL"]
    for flush in flushes:
        server.raw("SET k v")
        server.raw(flush)
        server.raw("GET k")
    records = server.records()
    assert named(records, ["k"]) == ["write k", "flush", "miss k"] * len(flushes)
    assert [record.db for record in records[1::3]] == [DB_UNKNOWN] * len(flushes)


def test_databases_are_flushed_and_swapped(server: SampledServer) -> None:
    server.start()
    with redis.Redis.from_url(server.server.url, db=3) as client:
        client.execute_command("FLUSHDB", "ASYNC")
        client.flushdb()
        client.set("k", "v")
        client.execute_command("SWAPDB", "3", "9")
        assert client.get("k") is None
        client.execute_command("DEBUG", "RELOAD")
    flush, again, _, swap, _, reload = server.records()
    events = ["flush", "flush", "write k", "swap", "miss k", "flush"]
    assert named(server.records(), ["k"]) == events
    assert (flush.db, again.db, reload.db) == (3, 3, DB_UNKNOWN)
    assert (swap.db, swap.size_bytes) == (3, 9)


def test_threads_that_read_for_the_server(kind: ServerKind) -> None:
    settings = {"io-threads": "4"}
    if "Redis 7.0" in kind.name:
        settings["io-threads-do-reads"] = "yes"
    rounds, clients = 15, 8
    with SampledServer(kind, settings) as server:
        server.start()

        def work(number: int) -> None:
            with redis.Redis.from_url(server.server.url) as client:
                for _ in range(rounds):
                    pipeline = client.pipeline(transaction=False)
                    for key in MANY[number * 20 : number * 20 + 20]:
                        pipeline.set(key, "v" * 100)
                        pipeline.get(key)
                    pipeline.execute()

        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(work, range(clients)))
        used = MANY[: clients * 20]
        expected = {f"{what} {key}": rounds for key in used for what in ("write", "hit")}
        assert Counter(named(server.records(), used)) == expected
        sequences = [int(batch.header["sequence"]) for batch in server.batches]
        assert all(later == earlier + 1 for earlier, later in itertools.pairwise(sequences))


def test_loading_records_nothing(kind: ServerKind, tmp_path: Path) -> None:
    """A log of commands is replayed before sampling begins, though its knobs stand in the file."""
    settings: dict[str, object] = {
        **kind.settings(),
        "dir": tmp_path,
        "appendonly": "yes",
        "aof-use-rdb-preamble": "no",
    }
    with LocalServer(settings, kind.binary) as server:
        for key in MANY:
            server.client.set(key, "v", ex=100)
        server.client.rename(MANY[0], "renamed")
        server.client.delete(MANY[1])
        server.client.expire(MANY[2], 1000)
    knobs: dict[str, object] = {
        kind.knob("endpoint"): f"ipc://{tmp_path}/samples",
        kind.knob("threshold"): 1 << 24,
    }
    with LocalServer({**settings, **knobs}, kind.binary) as server:
        assert server.client.dbsize() == len(MANY) - 1
        wait_until(lambda: server.client.info("spreds")["spreds_on"], server.client.info)
        assert server.client.info("spreds")["spreds_seen"] == 0
