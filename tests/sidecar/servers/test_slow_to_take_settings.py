"""A server that takes settings slowly gets one a second: the others wait meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError
from sidecar.servers.server_contact import ServerContact


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
    with pytest.raises(ServerDownError, match="one a second"):
        contact.set({"maxmemory": 4})
    server.now += 1.0
    contact.set({"maxmemory": 5})
    contact.settle()  # the sidecar stops: nothing half applied may stay
    contact.set({"maxmemory": 6})
    assert server.taken == [1, 2, 3, 5, 6]
    contact.close()
