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


def test_they_are_not_recorded(server: SampledServer, strangers: list[Stranger]) -> None:
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


def test_one_refused_command_makes_no_reads_of_looks(
    server: SampledServer, strangers: list[Stranger]
) -> None:
    server.raw("GET k")
    wait_for_a_batch(server)
    server.set(threshold=0)  # so that a batch is sent as it is, and not dropped
    before = server.counters()["seen_reads"]
    for _ in range(100):
        server.raw("EXISTS k")
    strangers[0].be_refused("GET k")
    server.raw("GET k")
    assert server.counters()["seen_reads"] - before <= 2


def test_kinds_of_errors_without_end_cost_no_more_than_a_count(server: SampledServer) -> None:
    """Each is told by the server, where it tells any number of them, to whoever asks for one."""
    if not (server.kind.is_module and server.kind.is_redis_70):
        pytest.skip("the patch asks nobody, and later servers give up at 128 kinds")
    server.start()
    for start in range(0, 100_000, 10_000):
        pipe = server.client.pipeline(transaction=False)
        for number in range(start, start + 10_000):
            pipe.eval("return redis.error_reply(ARGV[1])", 0, f"E{number} x")
        pipe.execute(raise_on_error=False)
    server.raw("CONFIG SET requirepass secret")
    stranger = Stranger(server.server.socket)
    log = server.server.log

    def gives_up() -> bool:
        stranger.be_refused("GET k")
        server.raw("GET k")
        return "among so many kinds of errors takes too long" in log.read_text()

    wait_until(gives_up, server.counters)
    stranger.close()
    server.receive()
    before, reads = len(server.records()), server.counters()["seen_reads"]
    server.raw("SET k v")
    server.raw("GET k")
    assert named(server.records()[before:], ["k"]) == ["write k", "hit k"]
    assert server.counters()["seen_reads"] - reads == 1
