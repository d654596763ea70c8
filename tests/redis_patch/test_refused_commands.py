"""Commands of clients that are not authenticated, or may not run them, are no accesses."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.redis_patch.sampled_server import SampledServer, named
from workloads.local_node import wait_until

REFUSED = ["GET k", "SET k v", "MGET k j", "EXISTS k", "SET k v EX 100", "APPEND k v", "INCR j"]
TIMES = 20


class Stranger:
    """A bare connection: what a client's library asks first would be refused too."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._replies = self._socket.makefile("rb")

    def ask(self, *commands: str) -> list[bytes]:
        """Replies of one line each. Some are sent at once, not all: servers hang up on a client
        without a password that does not take 1 KiB of replies."""
        replies = []
        for start in range(0, len(commands), TIMES):
            part = commands[start : start + TIMES]
            self._socket.sendall("".join(f"{command}\r\n" for command in part).encode())
            replies += [self._replies.readline() for _ in part]
        return replies

    def be_refused(self, *commands: str) -> None:
        for reply in self.ask(*commands):
            assert reply.startswith((b"-NOAUTH", b"-NOPERM")), reply

    def close(self) -> None:
        self._replies.close()
        self._socket.close()


@pytest.fixture
def strangers(server: SampledServer) -> Iterator[list[Stranger]]:
    """One that has no password, and one that may do nothing but PING."""
    server.start()
    server.raw("SET k v")
    server.raw("ACL SETUSER poor on >poor ~other +ping")
    server.raw("CONFIG SET requirepass secret")
    with ExitStack() as stack:
        made = [Stranger(server.server.socket) for _ in range(2)]
        for stranger in made:
            stack.callback(stranger.close)
        assert made[1].ask("AUTH poor poor") == [b"+OK\r\n"]
        yield made


def wait_for_a_batch(server: SampledServer) -> None:
    before = server.counters()["batches"]
    wait_until(lambda: server.counters()["batches"] > before, server.counters)


def see_that_they_are_not_recorded(server: SampledServer, strangers: list[Stranger]) -> None:
    for stranger in strangers:  # the first ones may cost a batch
        stranger.be_refused(*REFUSED)
    wait_for_a_batch(server)
    server.receive()
    before, keyspace = len(server.records()), server.client.info("stats")
    reads = server.counters()["seen_reads"]
    for _ in range(TIMES):
        for stranger in strangers:
            stranger.be_refused(*REFUSED)
        for command in ("GET k", "SET j 1", "MGET k none"):
            server.raw(command)
        for stranger in strangers:
            stranger.be_refused("GET k")
    events = Counter(named(server.records()[before:], ["k", "j", "none"]))
    assert events == {"hit k": 2 * TIMES, "miss none": TIMES, "write j": TIMES}
    now = server.client.info("stats")
    counted = sum(now[name] - keyspace[name] for name in ("keyspace_hits", "keyspace_misses"))
    assert server.counters()["seen_reads"] - reads == counted == 3 * TIMES


def test_they_are_not_recorded(server: SampledServer, strangers: list[Stranger]) -> None:
    see_that_they_are_not_recorded(server, strangers)


def test_a_server_that_has_long_to_tell_of_them_is_not_asked(
    server: SampledServer, strangers: list[Stranger]
) -> None:
    """Else each sampled command after a stranger's stops its server for milliseconds."""
    if not (server.kind.is_module and server.kind.is_redis_70):
        pytest.skip("Redis 7.0 alone counts as many kinds of errors as clients make up")
    pipe = server.client.pipeline(transaction=False)
    for number in range(30_000):
        pipe.eval("return redis.error_reply(ARGV[1])", 0, f"E{number} x")
    pipe.execute(raise_on_error=False)
    see_that_they_are_not_recorded(server, strangers)
    assert server.counters()["errors_are_refusals"] == 1
    before = len(server.records())
    server.raw("LPUSH k v")  # any other error: that it was no refusal, it is not asked
    server.raw("GET none")
    assert named(server.records()[before:], ["k", "none"]) == ["miss none"]
    server.client.config_resetstat()
    strangers[0].be_refused("GET k")
    wait_for_a_batch(server)
    before = len(server.records())
    server.raw("LPUSH k v")
    server.raw("GET none")
    assert named(server.records()[before:], ["k", "none"]) == ["write k", "miss none"]
    assert server.counters()["errors_are_refusals"] == 0


def test_what_comes_first_is_not_sent(server: SampledServer, strangers: list[Stranger]) -> None:
    """While nobody was refused before, the module notices it when the batch is full or due."""
    wait_for_a_batch(server)
    before = len(server.records())
    strangers[0].be_refused(*["GET k"] * 100)
    wait_for_a_batch(server)
    assert server.records()[before:] == []
    server.raw("GET k")
    assert named(server.records()[before:], ["k"]) == ["hit k"]


def test_reads_that_are_not_sampled(server: SampledServer, strangers: list[Stranger]) -> None:
    server.set(threshold=0)
    before = server.counters()["seen_reads"]
    for stranger in strangers:
        stranger.be_refused(*["GET k"] * 100)
    server.raw("GET k")
    assert server.counters()["seen_reads"] - before == 1


def test_looks_of_others_are_no_reads(server: SampledServer, strangers: list[Stranger]) -> None:
    """Each refused command may have been one look of those that were seen, and no more."""
    server.set(threshold=0)
    before = server.counters()["seen_reads"]
    for _ in range(TIMES):
        server.raw("GET k")
        for _ in range(9):
            server.raw("EXISTS k j")
    for stranger in strangers:
        stranger.be_refused("GET k", f"EXISTS{' k' * 1000}")
    reads = server.counters()["seen_reads"] - before
    refused, keys = 4, 2
    assert TIMES <= reads <= TIMES + refused * (keys + 1)
