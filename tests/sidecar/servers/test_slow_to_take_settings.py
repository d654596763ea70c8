"""A server that takes settings slowly gets them seldom: the others wait meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers import server_watch
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError
from sidecar.servers.server_contact import ServerContact
from sidecar.servers.server_sampler import ServerSampler
from tests.sidecar.fixtures import MakeNode


class SlowServer(RedisServer):
    """Takes as long as it is told to, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(ServerConfig("a", "redis://127.0.0.1:1"))
        self.now = 1000.0
        self.takes_seconds = 0.0
        self.taken: list[object] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def set(self, settings: Mapping[str, object]) -> None:
        self.now += self.takes_seconds
        self.taken.append(settings["maxmemory"])


def test_one_that_is_slow_gets_one_setting_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SlowServer(monkeypatch)
    contact = ServerContact(server, Metrics())
    for size in (1, 2):
        contact.set({"maxmemory": size})
    server.takes_seconds = 0.9
    contact.set({"maxmemory": 3})
    with pytest.raises(ServerDownError, match="it was slow to take a setting"):
        contact.set({"maxmemory": 4})
    server.now += 1.0
    contact.set({"maxmemory": 5})
    contact.settle()  # the sidecar stops: nothing half applied may stay
    contact.set({"maxmemory": 6})
    assert server.taken == [1, 2, 3, 5, 6]
    contact.close()


def test_a_samplers_settings_that_take_long_come_seldom(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that is another process each second had all others wait for most of the time."""
    node = make_node("16mb", "16mb")
    node.settle(16, 16)
    clock, given = SimpleNamespace(now=1000.0), list[float]()
    monkeypatch.setattr(server_watch, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def follow(sampler: ServerSampler, *_: object) -> None:
        if sampler is node.actuator._watches["s0"]._sampler:
            given.append(clock.now)
            clock.now += 2.0

    monkeypatch.setattr(ServerSampler, "follow", follow)
    for _ in range(60):
        node.actuator.step()
        clock.now += 1.0
    assert given == [1000.0, 1022.0, 1044.0]


def test_sizes_come_before_what_may_take_long(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("16mb", "16mb")
    node.settle(16, 16)
    done: list[str] = []
    set_size = RedisServer.set

    def note_size(server: RedisServer, settings: Mapping[str, object]) -> None:
        if "maxmemory" in settings:
            done.append("size")
        set_size(server, settings)

    monkeypatch.setattr(RedisServer, "set", note_size)
    monkeypatch.setattr(ServerSampler, "follow", lambda *_: done.append("sampler"))
    node.want(12, 20)
    node.actuator.step()
    assert done[0] == "size"
    assert done[-2:] == ["sampler", "sampler"]


def test_who_takes_settings_slowly_shrinks_last(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("16mb", "16mb", "16mb")
    node.settle(16, 16, 16)
    done: list[str] = []
    monkeypatch.setattr(RedisServer, "set", lambda server, settings: done.append(server.name))
    node.actuator._watches["s0"].contact.sets_slowly = True
    node.want(12, 12, 12)
    node.actuator.step()
    assert done.index("s0") == max(map(done.index, ("s0", "s1", "s2")))
