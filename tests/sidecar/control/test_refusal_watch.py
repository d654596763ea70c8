"""A server that refuses writes as it has no memory for them says so by its counters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import redis

from sidecar.config.node import ServerConfig
from sidecar.control.refusal_watch import LASTS_SECONDS, REFUSED_OVER_SECONDS, RefusalWatch
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_reading import ServerReading
from tests.sidecar.fixtures import StartServer
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

MB = 1 << 20


def _read(server: LocalServer) -> ServerReading:
    reader = RedisServer(ServerConfig("a", server.url))
    try:
        return reader.read()
    finally:
        reader.close()


def _refuse(server: LocalServer, writes: int) -> ServerReading:
    for _ in range(writes):
        with suppress(redis.exceptions.OutOfMemoryError):
            server.client.hset("more", "field", "text")
    return _read(server)


def test_a_server_without_memory_for_writes_is_told_once_that_lasts(
    start_server: StartServer,
) -> None:
    server = start_server("8mb", **{"maxmemory-policy": "volatile-lru"})
    watch = RefusalWatch()
    assert list(watch.take_readings(0.0, {"a": _read(server)})) == []
    server.client.set("kept", b"x" * 2 * MB)
    server.client.config_set("maxmemory", 2 * MB)
    assert list(watch.take_readings(1.0, {"a": _refuse(server, 3)})) == []
    (problem,) = watch.problems(1.0 + REFUSED_OVER_SECONDS)
    assert problem.startswith("a refused 3 writes since ")
    assert ": it used " in problem
    assert " of 2 MiB, and " in problem
    assert list(watch.problems(1.1 + REFUSED_OVER_SECONDS)) == []
    assert list(watch.take_readings(0.9 + LASTS_SECONDS, {"a": _refuse(server, 1)})) == []
    assert watch.lasting(0.9 + LASTS_SECONDS) == []
    ((name, words),) = watch.take_readings(1.0 + LASTS_SECONDS, {"a": _refuse(server, 1)})
    assert (name, words[:24]) == ("a", "a refuses writes: it use")
    assert watch.lasting(1.0 + LASTS_SECONDS) == ["a"]
    assert watch.lasting(1.0 + 2 * LASTS_SECONDS) == []
    assert list(watch.take_readings(2.0 + LASTS_SECONDS, {"a": _refuse(server, 1)})) == []
    assert next(watch.problems(2.0 + LASTS_SECONDS)).startswith("a refused 6 writes since ")
    # After a while without any it is another event.
    later = 3.0 + LASTS_SECONDS + REFUSED_OVER_SECONDS
    assert list(watch.take_readings(later, {"a": _refuse(server, 1)})) == []
    assert next(watch.problems(later)).startswith("a refused a write since ")
    assert len(list(watch.take_readings(later + LASTS_SECONDS, {"a": _refuse(server, 1)}))) == 1


def test_what_has_another_reason_and_another_process_are_not_told(
    start_server: StartServer,
) -> None:
    server = start_server("8mb")
    watch = RefusalWatch()
    first = _read(server)
    assert list(watch.take_readings(1.0, {"a": first})) == []
    server.client.execute_command("ACL", "SETUSER", "default", "-set")
    with suppress(redis.exceptions.NoPermissionError):
        server.client.set("key", b"x")
    refused = _read(server)
    assert refused.refused_writes == 1
    assert list(watch.take_readings(2.0, {"a": refused})) == []
    # Of large values it may evict more in a second than it holds, and is full.
    turned_over = replace(
        refused, evicted_keys=100, keys=10, refused_writes=99, counted_bytes=7 * MB
    )
    assert list(watch.take_readings(2.2, {"a": turned_over})) == []
    # A full server has a little more than its limit now and then, and evicts.
    full = replace(refused, counted_bytes=9 * MB, keys=1000, refused_writes=199)
    assert list(watch.take_readings(2.5, {"a": full})) == []
    assert list(watch.problems(2.5)) == []
    other = replace(refused, run_id="e" * 40, refused_writes=9, counted_bytes=9 * MB)
    assert list(watch.take_readings(3.0, {"a": other})) == []
    assert list(watch.problems(3.0)) == []


def test_values_for_which_there_is_no_room_are_told_though_they_are_gone_again(
    start_server: StartServer,
) -> None:
    """Such a value counts only while it is written, and everything else is evicted for it."""
    server = start_server("4mb")
    watch, told = RefusalWatch(), list[tuple[str, str]]()
    for second in range(int(LASTS_SECONDS) + 2):
        server.client.mset({f"key{place}": b"x" * 20_000 for place in range(40)})
        told += list(watch.take_readings(float(second), {"a": _read(server)}))
        with redis.Redis.from_url(server.url) as large, suppress(redis.OutOfMemoryError):
            large.set("large", b"x" * 5 * MB)
        # What it sent is held for it until it is gone.
        wait_until(lambda: _read(server).counted_bytes < 2 * MB, lambda: _read(server))
        told += list(watch.take_readings(second + 0.5, {"a": _read(server)}))
    assert [words[:24] for _, words in told] == ["a refuses writes: a valu"]
    assert "a value takes more than 4 MiB have room for" in next(watch.problems(second + 0.5))
