"""A server that refuses writes as it has no memory for them says so by its counters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import redis

from sidecar.control.refusal_watch import OVER_SECONDS, RefusalWatch
from sidecar.servers.server_reading import ServerReading
from tests.sidecar.fixtures import StartServer
from workloads.local_server import LocalServer

MB = 1 << 20


def _read(server: LocalServer) -> ServerReading:
    return ServerReading.parse(server.client.info("everything"), {}, 1.0)


def test_a_server_without_memory_for_a_write_is_told_until_it_takes_them_again(
    start_server: StartServer,
) -> None:
    server = start_server("8mb", **{"maxmemory-policy": "volatile-lru"})
    watch = RefusalWatch()
    assert list(watch.look(1.0, {"a": _read(server)})) == []
    server.client.set("kept", b"x" * 2 * MB)
    server.client.config_set("maxmemory", 2 * MB)
    for _ in range(3):
        with suppress(redis.exceptions.OutOfMemoryError):
            server.client.set("more", b"x")
    ((name, words),) = watch.look(2.0, {"a": _read(server)})
    assert name == "a"
    assert words.startswith("a refuses writes: it uses ")
    assert " of 2 MiB, and " in words
    (problem,) = watch.problems(2.0 + OVER_SECONDS)
    assert problem.startswith("a refused 3 writes since ")
    assert list(watch.problems(2.1 + OVER_SECONDS)) == []
    # What goes on is the same event, and after a while without it is another one.
    with suppress(redis.exceptions.OutOfMemoryError):
        server.client.incr("more")
    assert list(watch.look(3.0, {"a": _read(server)})) == []
    assert next(watch.problems(3.0)).startswith("a refused 4 writes since ")
    with suppress(redis.exceptions.OutOfMemoryError):
        server.client.hset("more", "field", "text")
    assert len(list(watch.look(4.0 + OVER_SECONDS, {"a": _read(server)}))) == 1


def test_what_has_another_reason_and_another_process_are_not_told(
    start_server: StartServer,
) -> None:
    server = start_server("8mb")
    watch = RefusalWatch()
    first = _read(server)
    assert list(watch.look(1.0, {"a": first})) == []
    server.client.execute_command("ACL", "SETUSER", "default", "-set")
    with suppress(redis.exceptions.NoPermissionError):
        server.client.set("key", b"x")
    refused = _read(server)
    assert refused.refused_writes == 1
    assert list(watch.look(2.0, {"a": refused})) == []
    other = replace(refused, run_id="e" * 40, refused_writes=9, counted_bytes=9 * MB)
    assert list(watch.look(3.0, {"a": other})) == []
    assert list(watch.problems(3.0)) == []
