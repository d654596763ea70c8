"""Reading INFO, of a dictionary as redis-py gives it and of a real server."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_reading import LATENCY_HISTOGRAM_BYTES, ServerReading
from solver_lambda.documents.reader import MOST_BYTES
from solver_lambda.documents.units import format_size
from tests.sidecar.fixtures import StartServer
from workloads.local_node import wait_until
from workloads.local_server import BUILD, LocalServer

INFO: dict[str, Any] = {
    "run_id": "0123456789abcdef" + "0" * 24,
    "role": "master",
    "maxmemory": 1000,
    "maxmemory_policy": "allkeys-lru",
    "used_memory": 900,
    "used_memory_startup": 100,
    "mem_clients_normal": 30,
    "mem_not_counted_for_evict": 5,
    "keyspace_hits": 3,
    "keyspace_misses": 4,
    "db0": {"keys": 5, "expires": 1, "avg_ttl": 1000},
    "db3": {"keys": 7, "expires": 3, "avg_ttl": 5000},
    "cmdstat_get": {"calls": 7},
    "cmdstat_set": {"calls": 0, "rejected_calls": 1},
}


def test_sums_over_databases_and_takes_the_baseline_apart() -> None:
    reading = ServerReading.parse(INFO, {"maxmemory-samples": "10"}, 1.5)
    assert reading.instance == 0x0123456789ABCDEF
    assert (reading.keys, reading.average_ttl_seconds) == (12, 4.0)
    assert reading.baseline_bytes == 125 + LATENCY_HISTOGRAM_BYTES
    assert ServerReading.parse(INFO, {"latency-tracking": "no"}, 1.5).baseline_bytes == 125
    assert reading.counted_bytes == 895
    assert (reading.maxmemory_samples, reading.lfu_log_factor) == (10, 10)


@pytest.mark.parametrize(
    ("version", "taken"), [("7.0.15", 0), ("7.2.4", 0), ("7.4.0", 8320), ("8.0.2", 8320), ("x", 0)]
)
def test_lua_takes_memory_from_the_keys_where_the_server_counts_it(
    version: str, taken: int
) -> None:
    info = {**INFO, "redis_version": version, "used_memory_vm_total": 80_000}
    config = {"latency-tracking": "no"}
    assert ServerReading.parse(info, config, 1.5).baseline_bytes == 125 + taken


@pytest.mark.parametrize(("most", "needed"), [("0", 0), ("1000", 0), ("5%", 600), ("100%", 30)])
def test_clients_that_may_have_a_part_need_the_whole(most: str, needed: int) -> None:
    """Else the server disconnects them as it shrinks."""
    config = {"maxmemory-clients": most, "latency-tracking": "no"}
    assert ServerReading.parse(INFO, config, 1.5).unevictable_bytes == max(125, needed)


def test_keys_without_a_ttl_are_pinned_where_only_others_are_evicted() -> None:
    config = {"latency-tracking": "no"}
    volatile = ServerReading.parse({**INFO, "maxmemory_policy": "volatile-lru"}, config, 1.5)
    assert volatile.unevictable_bytes == 125 + (895 - 125) * 8 // 12


def test_where_there_is_no_key_no_eviction_frees_anything() -> None:
    """A megabyte of a client's name is nowhere in INFO: all keys were evicted for it, and then the
    server refused writes, and got nothing."""
    config = {"latency-tracking": "no"}
    empty = {**INFO, "db0": {"keys": 0}, "db3": {}}
    assert ServerReading.parse(empty, config, 1.5).unevictable_bytes == 895
    freeing = {**empty, "lazyfree_pending_objects": 9}
    assert ServerReading.parse(freeing, config, 1.5).unevictable_bytes == 125


NO_TTL = {"db0": {"keys": 5, "expires": 0}, "db3": {}}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, None),
        ({"role": "slave"}, "a replica"),
        ({"maxmemory_policy": "noeviction"}, "noeviction"),
        ({"maxmemory_policy": "volatile-lru"}, None),
        ({"maxmemory_policy": "volatile-lru", **NO_TTL}, "volatile-lru, and no key has a TTL"),
        ({"maxmemory_policy": "volatile-lru", **NO_TTL, "maxmemory": 500}, None),
    ],
)
def test_why_a_server_keeps_its_size(told: dict[str, Any], why: str | None) -> None:
    reading = ServerReading.parse({**INFO, **told}, {"latency-tracking": "no"}, 1.5)
    assert reading.evicts is (why is None)
    words = f"no_eviction: {why}"
    if reading.role == "master":  # a replica takes what its primary sends
        words += "; a smaller maxmemory would make writes fail"
    assert reading.keep_reason() == (words if why else None)


def test_replicas_are_known_by_their_addresses_as_far_as_these_can_be_printed() -> None:
    told = {
        "slave0": {"ip": "10.0.0.7", "port": 6379, "state": "online"},
        "slave1": {"ip": "\x1b[2J", "port": 1},
        "slave2": "nonsense",
        "slave_repl_offset": 7,
    }
    reading = ServerReading.parse({**INFO, **told}, {}, 1.5)
    assert reading.replicas == ("10.0.0.7:6379", "\\x1b[2J:1")


@pytest.mark.parametrize("key", ["run_id", "used_memory", "maxmemory"])
def test_what_is_missing_or_no_number_is_named(key: str) -> None:
    for broken in ({**INFO, key: "many"}, {k: v for k, v in INFO.items() if k != key}):
        with pytest.raises(ValueError, match=key):
            ServerReading.parse(broken, {}, 0)


@pytest.mark.parametrize(
    ("told", "odd"),
    [
        ({"db0": {"keys": float("inf"), "expires": 1}}, "keys"),
        ({"db0": {"keys": 1, "expires": "x"}}, "expires"),
        ({"db0": {"keys": 1, "expires": 1, "avg_ttl": -123372036854775872}}, "avg_ttl"),
        ({"cmdstat_get": {"calls": "many"}}, "calls"),
        ({"mem_clients_normal": 1.5}, "mem_clients_normal"),
        ({"keyspace_hits": "9" * 400}, "keyspace_hits"),
        ({"mem_not_counted_for_evict": 1 << 53}, "mem_not_counted_for_evict"),
    ],
)
def test_an_odd_figure_is_told_and_not_counted_with(told: dict[str, Any], odd: str) -> None:
    reading = ServerReading.parse({**INFO, **told}, {}, 0)
    assert reading.odd_figures == (odd,)
    figures = [value for value in vars(reading).values() if isinstance(value, int | float)]
    assert all(0 <= figure < 1 << 64 for figure in figures)


def test_odd_settings_are_told_and_those_that_are_no_text_are_left_out() -> None:
    config = {
        "maxmemory-clients": "many%",
        "maxmemory-eviction-tenacity": "abc",
        "maxmemory-samples": "0",
        "hz": "10\x01",
    }
    reading = ServerReading.parse(INFO, config, 0)
    assert reading.odd_figures == ("maxmemory-clients", "maxmemory-eviction-tenacity")
    assert (reading.tenacity, reading.maxmemory_samples) == (10, 1)
    assert "hz" not in reading.config


@pytest.mark.parametrize(
    ("said", "samples", "odd"),
    [(64, 64, ()), (2**31 - 1, 64, ()), (2**31, 5, ("maxmemory-samples",))],
)
def test_samples_of_an_eviction_have_a_bound(said: int, samples: int, odd: tuple[str, ...]) -> None:
    """Redis 7.0 allows 2^31 - 1; all of them are looked at, in each simulated cache."""
    reading = ServerReading.parse(INFO, {"maxmemory-samples": str(said)}, 0)
    assert (reading.maxmemory_samples, reading.odd_figures) == (samples, odd)


@pytest.mark.parametrize("told", [{"used_memory": -1}, {"maxmemory": "9" * 5000}])
def test_what_it_is_controlled_by_must_make_sense(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a whole number") as refused:
        ServerReading.parse({**INFO, **told}, {}, 0)
    assert len(str(refused.value)) < 300
    assert ServerReading.parse({**INFO, "maxmemory": 2**64 - 1}, {}, 0).maxmemory_bytes == 1 << 61
    with pytest.raises(ValueError, match="no table"):
        ServerReading.parse(INFO, ["maxmemory", "1"], 0)  # type: ignore[arg-type]


def test_more_keys_with_a_ttl_than_keys_make_no_negative_memory() -> None:
    told = {**INFO, "maxmemory_policy": "volatile-lru", "db0": {"keys": 1, "expires": 50}}
    reading = ServerReading.parse(told, {"latency-tracking": "no"}, 0)
    assert reading.unevictable_bytes >= reading.baseline_bytes


def test_real_server_accounts_for_its_memory(stock_binary: Path) -> None:
    settings: dict[str, object] = {"maxmemory": "64mb", "enable-debug-command": "yes"}
    with LocalServer(settings, stock_binary) as server:

        def read() -> ServerReading:
            info = server.client.info("default", "commandstats")
            return ServerReading.parse(info, {}, time.time())

        def unexplained_bytes() -> int:
            reading = read()
            return reading.counted_bytes - reading.baseline_bytes

        client: Any = server.client
        for command in ("HLEN", "LLEN", "SCARD", "STRLEN", "ZCARD"):
            client.execute_command(command, "key")
        # Of the buffers of clients, INFO knows what they were a second ago.
        assert abs(unexplained_bytes()) < 2 * LATENCY_HISTOGRAM_BYTES
        empty = read()
        client.execute_command("DEBUG", "POPULATE", "20000", "key", "100")
        full = read()
    assert empty.run_id == full.run_id
    assert full.keys == 20_000
    assert full.maxmemory_samples == 5
    per_key = (full.counted_bytes - full.baseline_bytes) / full.keys
    # 183 in Redis 7.0.15, 160 in Valkey 8.1.1; in 9.1 150, less some bytes of a client.
    assert 150 <= round(per_key) < 260


def test_what_a_stalled_replica_has_not_read_makes_no_key_heavier(stock_binary: Path) -> None:
    settings: dict[str, object] = {
        "maxmemory": "256mb",
        "repl-backlog-size": "64kb",
        "client-output-buffer-limit": "replica 0 0 0",
        "repl-diskless-sync": "no",
    }
    with LocalServer(settings, stock_binary) as server, socket.socket(socket.AF_UNIX) as replica:
        replica.connect(str(server.socket))
        client: Any = server.client

        def per_key() -> float:
            info = client.info("default", "commandstats")
            reading = ServerReading.parse(info, {}, time.time())
            return (reading.counted_bytes - reading.baseline_bytes) / reading.keys

        for key in range(20_000):
            client.set(key, "v" * 100)
        before = per_key()
        replica.sendall(b"SYNC\r\n")
        wait_until(lambda: client.info("replication")["connected_slaves"] == 1, client.info)
        # It reads no more; what is written since is kept for it.
        value = "v" * 100_000
        while client.info("memory")["mem_not_counted_for_evict"] < 8 << 20:
            client.set("same", value)
        client.delete("same")
        # Buffers of a few 100 kB are told a second late; the 8 MB would be 420 bytes a key.
        assert per_key() == pytest.approx(before, rel=0.1)


@pytest.mark.parametrize(
    "binary", ["redis-server-stock", "redis8-server-stock", "valkey-server-stock"]
)
def test_a_server_is_read_while_it_loads_its_file(
    binary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses MEMORY STATS then, by which newer ones are asked for their tables."""
    if not (BUILD / "bin" / binary).exists():
        pytest.skip(f"{binary} is not built")
    with LocalServer({"maxmemory": "20mb"}, binary=BUILD / "bin" / binary) as server:
        server.client.eval("for i = 1, 20000 do redis.call('SET', i, i) end", 0)
        server.client.save()
        with (server.folder / "redis.conf").open("a") as file:
            file.write("key-load-delay 1000\nloading-process-events-interval-bytes 1024\n")
        monkeypatch.setattr(server, "_wait_until_up", lambda: None)
        server.restart()

        def is_loading() -> bool:
            try:
                return bool(server.client.info("persistence")["loading"])
            except redis.ConnectionError:
                return False

        wait_until(is_loading, lambda: server.log.read_text())
        reader = RedisServer(ServerConfig("a", server.url))
        try:
            assert reader.read().maxmemory_bytes == 20 << 20
            assert reader.may_ask_for_memory
            assert is_loading()
        finally:
            reader.close()
            server.client.config_set("key-load-delay", 0)


def test_a_size_beyond_what_info_can_say_is_read_as_more_than_any_memory(
    start_server: StartServer,
) -> None:
    """CONFIG SET takes 64 bits, and INFO tells them with a sign. Who cannot be read is never put
    back."""
    server = start_server("4mb", binary=BUILD / "bin" / "redis-server-stock")
    asked = RedisServer(ServerConfig("s", server.url))
    for number in (2**63 - 1, 2**63, 2**64 - 1):
        server.client.config_set("maxmemory", number)
        read_bytes = asked.read().maxmemory_bytes
        assert (read_bytes, format_size(read_bytes)) == (MOST_BYTES, "2 EiB or more")
    asked.close()
