"""Clients that wait for a key, and are served when another client writes it."""

from __future__ import annotations

from typing import NamedTuple

import redis

from tests.redis_patch.sampled_server import SampledServer, ServerKind, named
from workloads.local_node import wait_until


class Wait(NamedTuple):
    """``blocked`` waits until another client's ``serves``.

    The patch records ``patch`` (``patch_70`` on Redis 7.0, which serves without running the command
    again), the module ``module``: what it sees is the asking.
    """

    setup: str
    blocked: str
    serves: str
    patch: str
    module: str
    patch_70: str | None = None

    def expected(self, kind: ServerKind) -> list[str]:
        text = self.module if kind.is_module else self.patch
        if kind.is_redis_70 and not kind.is_module and self.patch_70 is not None:
            text = self.patch_70
        return sorted(event.strip() for event in text.split(";") if event)


POPS = "write k; write k"
EMPTIES = "write k; delete k"
WAITS = [
    Wait("", "BLPOP k 0", "RPUSH k a", EMPTIES, EMPTIES),
    Wait("", "BRPOP i k 0", "RPUSH k a b", POPS, "write k"),
    Wait("", "BLMPOP 0 1 k LEFT", "RPUSH k a", EMPTIES, EMPTIES),
    Wait("", "BLMOVE k j LEFT LEFT 0", "RPUSH k a", f"{EMPTIES}; write j", f"{EMPTIES}; write j"),
    Wait("", "BRPOPLPUSH k j 0", "RPUSH k a b", f"{POPS}; write j", "write k; write j"),
    Wait("", "BZPOPMIN k 0", "ZADD k 1 a", EMPTIES, EMPTIES, "write k; write k; delete k"),
    Wait("", "BZMPOP 0 1 k MIN", "ZADD k 1 a 2 b", POPS, "write k"),
    Wait(
        "",
        "XREAD BLOCK 0 STREAMS k $",
        "XADD k * f v",
        "miss k; miss k; write k; hit k; hit k",
        "miss k; write k",
        "miss k; miss k; write k",
    ),
    Wait(
        "XGROUP CREATE k g $ MKSTREAM",
        "XREADGROUP GROUP g c BLOCK 0 STREAMS k >",
        "XADD k * f v",
        "hit k; hit k; write k; hit k; hit k",
        "hit k; write k",
        "hit k; hit k; write k",
    ),
    # Nothing comes of these.
    Wait("", "BLPOP k 0", "CLIENT UNBLOCK ID", "", ""),
    Wait("", "XREAD BLOCK 0 STREAMS k $", "CLIENT UNBLOCK ID", "miss k; miss k", "miss k"),
    Wait("SET j v", "BLMOVE k j LEFT LEFT 0", "RPUSH k a", "write k", "write k; write j"),
]


def serve(server: SampledServer, wait: Wait) -> list[str]:
    """What is recorded while one client waits and is served, sorted."""
    server.raw("FLUSHALL")
    if wait.setup:
        server.raw(wait.setup)
    before = len(server.records())
    with redis.Redis.from_url(server.server.url) as client:
        connection = client.connection_pool.get_connection()
        connection.send_command("CLIENT", "ID")
        name = str(connection.read_response())
        connection.send_command(*wait.blocked.split())
        wait_until(lambda: server.client.info("clients")["blocked_clients"] == 1, server.counters)
        server.raw(wait.serves.replace("ID", name))
        try:
            connection.read_response()
        except redis.ResponseError as error:
            assert "WRONGTYPE" in str(error), wait  # noqa: PT017
    return sorted(named(server.records()[before:], ["k", "j", "i"]))


def test_what_waiting_clients_do_is_recorded(server: SampledServer) -> None:
    server.start()
    wrong = [
        f"{wait.blocked} | {wait.serves}: {events}, not {wait.expected(server.kind)}"
        for wait in WAITS
        for events in [serve(server, wait)]
        if events != wait.expected(server.kind)
    ]
    assert not wrong, "\n".join(wrong)
    assert server.client.info("clients")["blocked_clients"] == 0
