"""Clients' buffers that come and go evict keys, and that is told with its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.control.buffer_watch import BUFFERS_OVER_SECONDS, BufferWatch
from sidecar.servers.connection.server_reading import ServerReading
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
    assert list(watch.take_readings(1.0, {"a": _read(server)})) == []
    # What it evicts for its own keys is nothing.
    _fill(server)
    assert list(watch.take_readings(2.0, {"a": _read(server)})) == []
    assert list(watch.problems(2.0)) == []
    _burst(server)
    ((name, words),) = watch.take_readings(3.0, {"a": _read(server)})
    assert name == "a"
    assert words.startswith("a: something took some ")
    assert words.endswith(" keys were evicted for it")
    assert watch.just_now == {"a"}
    _fill(server)
    assert list(watch.take_readings(4.0, {"a": _read(server)})) == []
    assert watch.just_now == set()
    _burst(server)
    assert list(watch.take_readings(5.0, {"a": _read(server)})) == []
    (problem,) = watch.problems(5.0 + BUFFERS_OVER_SECONDS)
    assert ", 2 times since " in problem
    assert list(watch.problems(5.1 + BUFFERS_OVER_SECONDS)) == []


def test_a_server_that_is_cut_or_restarts_evicts_for_no_buffers(start_server: StartServer) -> None:
    server = start_server("12mb")
    watch = BufferWatch()
    _fill(server)
    first = _read(server)
    assert list(watch.take_readings(1.0, {"a": first})) == []
    server.client.config_set("maxmemory", 6 * MB)
    wait_until(lambda: _read(server).counted_bytes < 7 * MB, lambda: _read(server))
    assert list(watch.take_readings(2.0, {"a": _read(server)})) == []
    other = replace(first, run_id="e" * 40, evicted_keys=9999)
    assert list(watch.take_readings(3.0, {"a": other})) == []
    assert list(watch.problems(3.0)) == []


def test_a_server_that_is_being_given_memory_has_bursts(start_server: StartServer) -> None:
    """By the size alone each look is another server."""
    server = start_server("12mb")
    watch = BufferWatch()
    _fill(server)
    assert list(watch.take_readings(1.0, {"a": _read(server)})) == []
    _burst(server)
    server.client.config_set("maxmemory", 13 * MB)
    assert [name for name, _ in watch.take_readings(2.0, {"a": _read(server)})] == ["a"]
    assert watch.just_now == {"a"}


@pytest.mark.parametrize(("step_bytes", "told"), [(MB // 4, True), (0, False)])
def test_what_comes_slowly_is_seen_over_some_looks(
    start_server: StartServer, step_bytes: int, *, told: bool
) -> None:
    """A quarter of a MiB a look, and as many keys go for it."""
    server = start_server("12mb")
    _fill(server)
    first = _read(server)
    keys = step_bytes * first.keys // (first.counted_bytes - first.baseline_bytes)
    watch, found = BufferWatch(), []
    for look in range(12):
        more = look * step_bytes
        reading = replace(
            first,
            baseline_bytes=first.baseline_bytes + more,
            evicted_keys=first.evicted_keys + look * keys,
        )
        found += watch.take_readings(float(look), {"a": reading})
    assert [name for name, _ in found] == ["a"] * told


def test_a_cut_that_is_given_back_is_no_burst(start_server: StartServer) -> None:
    server = start_server("12mb")
    watch = BufferWatch()
    _fill(server)
    for second, size in enumerate((12, 9, 12), start=1):
        server.client.config_set("maxmemory", size * MB)
        wait_until(
            lambda size=size: _read(server).counted_bytes < (size + 1) * MB, lambda: _read(server)
        )
        assert list(watch.take_readings(float(second), {"a": _read(server)})) == []


def test_keys_that_go_by_themselves_beside_new_ones_are_no_burst(start_server: StartServer) -> None:
    """A cache with ordinary churn whose client deletes a third of its keys."""
    server = start_server("12mb")
    _fill(server)
    first, watch = _read(server), BufferWatch()
    for look in range(15):
        reading = replace(first, evicted_keys=first.evicted_keys + 250 * look)
        assert list(watch.take_readings(float(look), {"a": reading})) == []
    gone = replace(reading, counted_bytes=8 * MB, keys=first.keys * 2 // 3)
    assert list(watch.take_readings(15.0, {"a": gone})) == []


def test_what_a_cut_evicts_beyond_its_size_is_no_burst(start_server: StartServer) -> None:
    server = start_server("12mb")
    _fill(server)
    first, watch = _read(server), BufferWatch()
    assert list(watch.take_readings(1.0, {"a": first})) == []
    cut = replace(
        first,
        maxmemory_bytes=4 * MB,
        counted_bytes=4 * MB - 400_000,
        evicted_keys=first.evicted_keys + first.keys * 3 // 4,
        keys=first.keys // 4,
    )
    assert list(watch.take_readings(2.0, {"a": cut})) == []


def test_a_cache_of_large_values_makes_room_for_its_own(start_server: StartServer) -> None:
    server, watch = start_server("8mb"), BufferWatch()
    for number in range(60):
        server.client.set(f"key:{number}", b"x" * (300_000 + number % 3 * 500_000))
        assert list(watch.take_readings(float(number), {"a": _read(server)})) == []
    assert _read(server).evicted_keys > 20
