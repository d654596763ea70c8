"""What speaks Redis' protocol and is no Redis, or not one: named by what it is."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.config.node import ServerConfig
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerRefusedError
from sidecar.servers.server_changes import tell_changes
from sidecar.state.control_state import ControlState
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from workloads.experiment.attacks.stage.hostile_server import HostileServer, ask_real

MIB = 1 << 20


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("dragonfly_version:df-v1.12.0", "Dragonfly df-v1.12.0"),
        ("garnet_version:1.0.50", "Garnet 1.0.50"),
        ("kvrocks_version:2.9.0", "Kvrocks 2.9.0"),
        ("executable:/usr/bin/keydb-server", "KeyDB"),
        ("role:active-replica", "KeyDB"),
    ],
)
def test_another_program_is_named_and_not_read(
    start_server: StartServer, tmp_path: Path, line: str, name: str
) -> None:
    real = start_server("12mb").client

    def answer(words: list[str]) -> list[bytes] | None:
        if words[0] != "INFO":
            return None
        # The last of two lines counts.
        text = ask_real(real, words).split(b"\r\n", 1)[1] + line.encode() + b"\r\n"
        return [b"$%d\r\n%b\r\n" % (len(text), text)]

    with HostileServer(tmp_path / "other", real, answer) as other:
        server = RedisServer(ServerConfig("a", other.url))
        with pytest.raises(ServerRefusedError, match=f"it is {name}: only Redis and Valkey"):
            server.read()
        server.close()


def test_a_size_that_is_answered_with_ok_and_not_taken_is_a_refusal(
    start_server: StartServer, tmp_path: Path
) -> None:
    real = start_server("12mb").client

    def answer(words: list[str]) -> list[bytes] | None:
        return [b"+OK\r\n"] if words[:3] == ["CONFIG", "SET", "maxmemory"] else None

    with HostileServer(tmp_path / "other", real, answer) as other:
        server = RedisServer(ServerConfig("a", other.url))
        with pytest.raises(ServerRefusedError, match=f"says OK .* {8 * MIB}, and has {12 * MIB}"):
            server.set({"maxmemory": 8 * MIB})
        server.set({"hz": 20})
        server.close()
    assert real.config_get("hz") == {"hz": "20"}


def test_an_address_of_several_servers_is_a_problem(
    start_server: StartServer,
    write_node: WriteNode,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reals = [start_server("12mb").client for _ in range(2)]
    asked = 0

    def answer(words: list[str]) -> list[bytes] | None:
        nonlocal asked
        asked += words[0] == "INFO"
        return [ask_real(reals[asked % 2], words)]

    with HostileServer(tmp_path / "other", reals[0], answer) as other:
        path = write_node({"a": other.url}, budget="24mb")
        assert main(["check", str(path), "--connect", "--json"]) == 1
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    (words,) = [one["what"] for one in found if one["where"] == "a" and "several" in one["what"]]
    assert "another connection comes to another one" in words


@pytest.mark.parametrize(
    ("uptime_seconds", "words"),
    [
        (2, "server a restarted with maxmemory"),
        (7200, "server a is another one that has run for 2h (has its address moved"),
    ],
)
def test_another_server_at_the_address_is_told_from_a_restart(
    caplog: pytest.LogCaptureFixture, uptime_seconds: int, words: str
) -> None:
    now = replace(
        STATS, run_id="2" * 40, at_seconds=STATS.at_seconds + 3, uptime_seconds=uptime_seconds
    )
    with caplog.at_level(logging.WARNING):
        tell_changes("a", STATS, now, None, Metrics(), ControlState())
    assert words in caplog.text
