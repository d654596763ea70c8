"""Clients' buffers that come and go evict keys, and that is told with its figures."""

from __future__ import annotations

from dataclasses import replace

from sidecar.control.buffer_watch import OVER_SECONDS, BufferWatch
from sidecar.servers.server_reading import ServerReading
from tests.sidecar.fixtures import StartServer
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

MB = 1 << 20


def _read(server: LocalServer) -> ServerReading:
    return ServerReading.parse(server.client.info("everything"), {}, 1.0)


def _fill(server: LocalServer) -> None:
    pipe = server.client.pipeline(transaction=False)
    for number in range(12_000):
        pipe.set(f"key:{number}", b"x" * 1000)
    pipe.execute()


def _burst(server: LocalServer) -> None:
    """A client asks for large answers, and reads nothing of them."""
    evicted = _read(server).evicted_keys
    connection = server.client.connection_pool.get_connection()
    for _ in range(8):
        connection.send_command("ECHO", b"x" * MB)
    wait_until(lambda: _read(server).evicted_keys > evicted + 2000, lambda: _read(server))
    connection.disconnect()
    wait_until(lambda: _read(server).baseline_bytes < 6 * MB, lambda: _read(server))


def test_bursts_are_told_once_an_hour_and_counted(start_server: StartServer) -> None:
    server = start_server("12mb")
    watch = BufferWatch()
    _fill(server)
    assert list(watch.look(1.0, {"a": _read(server)})) == []
    # What it evicts for its own keys is nothing.
    _fill(server)
    assert list(watch.look(2.0, {"a": _read(server)})) == []
    assert list(watch.problems(2.0)) == []
    _burst(server)
    ((name, words),) = watch.look(3.0, {"a": _read(server)})
    assert name == "a"
    assert words.startswith("a: something took some ")
    assert words.endswith(" keys were evicted for it")
    assert watch.just_now == {"a"}
    _fill(server)
    assert list(watch.look(4.0, {"a": _read(server)})) == []
    assert watch.just_now == set()
    _burst(server)
    assert list(watch.look(5.0, {"a": _read(server)})) == []
    (problem,) = watch.problems(5.0 + OVER_SECONDS)
    assert " for a moment, 2 times since " in problem
    assert list(watch.problems(5.1 + OVER_SECONDS)) == []


def test_a_server_that_is_cut_or_restarts_evicts_for_no_buffers(start_server: StartServer) -> None:
    server = start_server("12mb")
    watch = BufferWatch()
    _fill(server)
    first = _read(server)
    assert list(watch.look(1.0, {"a": first})) == []
    server.client.config_set("maxmemory", 6 * MB)
    wait_until(lambda: _read(server).counted_bytes < 7 * MB, lambda: _read(server))
    assert list(watch.look(2.0, {"a": _read(server)})) == []
    other = replace(first, run_id="e" * 40, evicted_keys=9999)
    assert list(watch.look(3.0, {"a": other})) == []
    assert list(watch.problems(3.0)) == []
