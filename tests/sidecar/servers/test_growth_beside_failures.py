"""A server that takes no size keeps nobody else small, and is told as one that refuses."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers import server_contact, server_watch
from sidecar.servers.apply_transitions import growths_beside
from sidecar.servers.connection import server_connection, server_lock
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.server_contact import NotSentError, ServerContact
from sidecar.servers.sizes.transitions import Grow, ServerState
from tests.sidecar.model_node import Node
from tests.sidecar.monitored_load import STATS
from workloads.experiment.faults.model.model_server import MIB


def state(name: str, has_mib: int, target_mib: int) -> ServerState:
    return ServerState(name, has_mib * MIB, has_mib * MIB, target_mib * MIB)


@given(st.integers(1, 40), st.integers(1, 24), st.integers(1, 24))
def test_growth_takes_what_is_really_free_beside_who_failed(
    failed_has: int, second: int, third: int
) -> None:
    states = [state("a", failed_has, 16), state("b", second, 16), state("c", third, 16)]
    if failed_has <= 16:
        return
    budget: Any = SimpleNamespace(bytes=48 * MIB)
    shrunk = [state(one.name, min(int(one.maxmemory_bytes) // MIB, 16), 16) for one in states[1:]]
    grown = {
        one.name: one.to_bytes
        for one in growths_beside(frozenset("a"), states, [states[0], *shrunk], budget)
        if isinstance(one, Grow)
    }
    assert "a" not in grown
    sizes = {one.name: grown.get(one.name, one.maxmemory_bytes) for one in shrunk}
    assert all(sizes[one.name] >= one.maxmemory_bytes for one in shrunk)
    assert all(size <= 16 * MIB for size in sizes.values())
    before = sum(one.maxmemory_bytes for one in shrunk)
    assert sum(sizes.values()) <= max(before, (48 - failed_has) * MIB)


def test_a_small_one_grows_beside_one_that_does_not_shrink() -> None:
    states = [state("evil", 17, 16), state("cache", 2, 16), state("other", 16, 16)]
    budget: Any = SimpleNamespace(bytes=48 * MIB)
    found = list(growths_beside(frozenset({"evil"}), states, states, budget))
    assert found == [Grow("cache", 2 * MIB, 15 * MIB)]


def test_who_takes_no_size_for_seconds_counts_as_one_that_refuses(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.stage.wait(2)
    watch, clock = node.actuator._watches["s1"], SimpleNamespace(now=1000.0)
    monkeypatch.setattr(server_watch, "time", SimpleNamespace(monotonic=lambda: clock.now))
    for seconds, refuses in ((0.0, False), (4.0, False), (2.0, True)):
        clock.now += seconds
        watch.failed(NotSentError("it was slow to take a setting"))
        assert (watch.refusal.reason is not None) is refuses
    assert "it takes none in time (it was slow to take a setting)" in str(watch.refusal.reason)
    watch.set_maxmemory(20 * MIB)
    assert watch.refusal.reason is None
    clock.now += 1.0
    watch.failed(NotSentError("again"))
    assert watch.refusal.reason is None


def test_who_was_away_has_not_refused_meanwhile(node: Node) -> None:
    """One setting that was late before, and one long after, are not five seconds of them."""
    node.stage.wait(2)
    watch = node.actuator._watches["s1"]
    watch.failed(NotSentError("it was slow to take a setting"))
    node.stage.hang_server(1)
    node.stage.wait(10)
    node.stage.wake_server(1)
    node.stage.wait(2)
    watch.failed(NotSentError("it was slow to take a setting"))
    assert watch.refusal.reason is None


def test_a_server_whose_answers_take_our_processor_is_asked_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contact = ServerContact(RedisServer(ServerConfig("a", "redis://127.0.0.1:1")), Metrics())
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(
        server_contact, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 1.0)
    )
    monkeypatch.setattr(contact._reading, "take", lambda: STATS)
    # Another process may have come meanwhile: no rest is longer than the last.
    for own_seconds, rests_seconds in ((0.01, 0.0), (0.2, 4.0), (2.0, 5.0)):
        contact._reading.own_seconds = own_seconds
        assert contact.take() is not None
        assert contact.rests is (rests_seconds > 0)
        clock.now += rests_seconds
        assert not contact.rests
    contact.close()


def test_a_server_whose_answers_to_settings_take_our_processor_gets_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = RedisServer(ServerConfig("a", "redis://127.0.0.1:1"))
    contact, clock = ServerContact(server, Metrics()), SimpleNamespace(now=1000.0, own=0.0)
    times = SimpleNamespace(monotonic=lambda: clock.now, thread_time=lambda: clock.own)
    for module in (server_contact, server_connection):
        monkeypatch.setattr(module, "time", times)

    def takes(_: object) -> None:
        clock.own += 0.1
        server.connecting_seconds += connecting

    monkeypatch.setattr(server, "set", takes)
    connecting = 0.1  # of which any user of the machine may be the cause
    contact.set({"maxmemory": 1})
    contact.set({"maxmemory": 1})
    connecting = 0.0
    contact.set({"maxmemory": 1})
    with pytest.raises(NotSentError, match="took much of our processor"):
        contact.set({"maxmemory": 1})
    clock.now += 2.0
    contact.set({"maxmemory": 1})
    contact.close()


LINES = st.sampled_from(
    [
        "id=7 addr=1 name=spreds:host:12:deadbeef user=spreds cmd=x",
        "id=8 name=spreds:h:3:00000000",
        "id=9 addr=2 name=app user=default",
        "id=10 name=spreds:nonsense user=default",
        "id=x name=spreds:h:3:00000000",
        "id=11 name= user=spreds:host:12:deadbeef",
        "",
    ]
)


@given(st.lists(LINES, max_size=12))
def test_lines_of_sidecars_are_found_as_by_a_search_of_the_whole_list(lines: list[str]) -> None:
    clients = "\n".join(lines)
    slow = [one.groupdict() for one in server_lock._CLIENT.finditer(clients)]
    assert [one.groupdict() for one in server_lock._named_like_us(clients)] == slow


def test_a_line_without_an_end_hides_no_other_and_is_searched_once() -> None:
    ours = "id=7 addr=1 name=spreds:host:12:deadbeef user=spreds cmd=x"
    clients = f"id=1 name=spreds:{' name=spreds:' * 100_000}\n{ours}\n"
    found = [one["pid"] for one in server_lock._named_like_us(clients)]
    assert found == ["12"]
    assert re.search("deadbeef", clients)
