"""A server that hangs finds our connection when it goes on: others would take its place."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import redis

from sidecar.config.node import ServerConfig
from sidecar.servers.connection import redis_server
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError, ServerSilentError
from tests.sidecar.fixtures import StartServer
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

PLACES = 4


@pytest.fixture
def full(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LocalServer, RedisServer]]:
    """A server with as many clients as it takes, and one of them is ours."""
    monkeypatch.setattr(redis_server, "TIMEOUT_SECONDS", 0.1)
    real = start_server("12mb", maxclients=PLACES)
    ours = RedisServer(ServerConfig("a", real.url))
    ours.announce(ours.read().run_id)
    others = [real.client.connection_pool.make_connection() for _ in range(PLACES - 2)]
    for other in others:
        other.connect()
    yield real, ours
    for other in others:
        other.disconnect()
    ours.close()


def hang(real: LocalServer, ours: RedisServer) -> None:
    """Ours is asked meanwhile, and more come than there are places."""
    real.process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        with pytest.raises(ServerSilentError):
            ours.read(0.2)


def test_it_is_ours_again_when_it_goes_on(full: tuple[LocalServer, RedisServer]) -> None:
    real, ours = full
    hang(real, ours)
    assert not ours.hung_up()
    real.process.send_signal(signal.SIGCONT)
    crowd: list[redis.Connection] = []
    wait_until(lambda: not enters(real, crowd), lambda: "it takes any number of clients")
    wait_until(lambda: is_read(ours), lambda: "others have its place")
    ours.set({"maxmemory": 16 << 20})
    assert ours.read().maxmemory_bytes == 16 << 20
    for one in crowd:
        one.disconnect()


def enters(real: LocalServer, crowd: list[redis.Connection]) -> bool:
    """Whether one more client is taken."""
    real.client.ping()  # what there is to accept was accepted
    one = real.client.connection_pool.make_connection()
    try:
        one.connect()
        one.send_command("PING")
        one.read_response()
    except redis.ConnectionError:
        return False
    crowd.append(one)
    return True


def is_read(ours: RedisServer) -> bool:
    try:
        return bool(ours.read(0.2).run_id)
    except ServerDownError:
        return False


def test_where_another_connection_is_ours_the_late_one_is_hung_up(
    full: tuple[LocalServer, RedisServer],
) -> None:
    real, ours = full
    real.client.config_set("maxclients", 20 * PLACES)
    hang(real, ours)
    real.process.send_signal(signal.SIGCONT)
    wait_until(lambda: is_read(ours), lambda: "")
    assert ours._late is None
    # Ours, that of the test, and the others.
    wait_until(lambda: len(real.client.client_list()) == PLACES, real.client.client_list)


def test_the_end_of_a_server_that_hung_is_noticed(full: tuple[LocalServer, RedisServer]) -> None:
    real, ours = full
    hang(real, ours)
    real.process.kill()
    real.process.wait()
    assert ours.hung_up()
    with pytest.raises(ServerDownError, match="refused"):
        ours.read()
    assert ours._late is None


def test_any_number_of_answers_may_be_late(start_server: StartServer) -> None:
    """The hundredth ended the sidecar: redis-py counts the connections that were ever made."""
    ours = RedisServer(ServerConfig("a", start_server("12mb").url))
    for _ in range(150):
        ours._hang_up()
        ours._begin_another()
    assert ours.read().maxmemory_bytes == 12 << 20
    ours.close()
