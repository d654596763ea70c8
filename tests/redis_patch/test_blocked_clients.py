"""Clients that wait for a key, and are served when another client writes it."""

from __future__ import annotations

from typing import NamedTuple

import redis

from tests.redis_patch.sampled_server import SampledServer, ServerKind, named
from workloads.local_node import wait_until


class Wait(NamedTuple):
    """``blocked`` waits until another client's ``serves``.

    The patch records ``patch`` (``patch_70`` on Redis 7.0, which serves without running the command
    again), the module ``module``: it sees what is asked for, and what has come of it. On Redis 7.0
    it sees less, ``module_70``.
    """

    setup: str
    blocked: str
    serves: str
    patch: str
    module: str
    patch_70: str | None = None
    module_70: str | None = None

    def expected(self, kind: ServerKind) -> list[str]:
        text = self.module if kind.is_module else self.patch
        if kind.source == "module_70" and self.module_70 is not None:
            text = self.module_70
        if kind.is_redis_70 and not kind.is_module and self.patch_70 is not None:
            text = self.patch_70
        return sorted(event.strip() for event in text.split(";") if event)


POPS = "write k; write k"
EMPTIES = "write k; delete k"  # or nothing: before and after it the key is not there
WAITS = [
    Wait("", "BLPOP k 0", "RPUSH k a", EMPTIES, "", module_70=EMPTIES),
    Wait("", "BRPOP i k 0", "RPUSH k a b", POPS, "write k"),
    Wait("", "BLMPOP 0 1 k LEFT", "RPUSH k a", EMPTIES, "", module_70=EMPTIES),
    Wait(
        "",
        "BLMOVE k j LEFT LEFT 0",
        "RPUSH k a",
        f"{EMPTIES}; write j",
        "write j",
        module_70=f"{EMPTIES}; write j",
    ),
    Wait(
        "",
        "BRPOPLPUSH k j 0",
        "RPUSH k a b",
        f"{POPS}; write j",
        f"{POPS}; write j",
        module_70="write k; write j",
    ),
    Wait("", "BZPOPMIN k 0", "ZADD k 1 a", EMPTIES, "", f"write k; {EMPTIES}", EMPTIES),
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
    Wait(
        "SET j v",
        "BLMOVE k j LEFT LEFT 0",
        "RPUSH k a",
        "write k",
        f"{POPS}; write j",
        module_70="write k; write j",
    ),
]


LOOKS = 100  # for what is recorded some ticks of the server later


def serve(server: SampledServer, wait: Wait) -> list[str]:
    """Return what is recorded while one client waits and is served, sorted."""
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
    events: list[str] = []
    for _ in range(LOOKS):
        events = sorted(named(server.records()[before:], ["k", "j", "i"]))
        if events == wait.expected(server.kind):
            break
    return events


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
