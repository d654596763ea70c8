"""A module that cannot be loaded as it is asked to: the server says why, and lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.redis_patch.sampled_server import ServerKind
from workloads.local_node import wait_until
from workloads.local_server import BUILD, LocalServer

MODULE = BUILD / "lib" / "spreds.so"
# What a thread without its code does is a race.
TIMES = 5

BAD: list[tuple[list[object], str]] = [
    (["spreds.endpoint", "nonsense"], "Invalid argument"),
    (["spreds.endpoint", "carrier-pigeon://coop"], "Protocol not supported"),
    (
        ["spreds.endpoint", "ipc:///tmp/spreds-nobody", "CONFIG", "spreds.threshold", 1 << 30],
        "spreds.threshold at most",
    ),
    (["spreds.modulus", 3, "CONFIG", "spreds.endpoint", "ipc:///tmp/x"], "must be a power of two"),
    (["spreds.endpoint", "ipc:///tmp/spreds-nobody", "CONFIG", "spreds.color", "red"], "Loadex"),
]


@pytest.fixture
def unloaded(kind: ServerKind) -> Iterator[LocalServer]:
    """A server into which the module can be loaded."""
    if not kind.is_module:
        pytest.skip("the patch is not loaded")
    settings: dict[str, object] = {"enable-module-command": "yes"}
    with LocalServer(settings, kind.binary) as server:
        yield server


def thread_names(server: LocalServer) -> list[str]:
    names = Path(f"/proc/{server.process.pid}/task").glob("*/comm")
    return [path.read_text().strip() for path in names]


def test_the_server_lives_and_says_why(unloaded: LocalServer) -> None:
    client = unloaded.client
    load = ["MODULE", "LOADEX", str(MODULE), "CONFIG"]
    for knobs, why in BAD:
        for _ in range(TIMES):
            with pytest.raises(redis.ResponseError, match="Error loading"):
                client.execute_command(*load, *knobs)
            assert client.ping()
            assert b"spreds" not in [module[b"name"] for module in client.module_list()]
        assert unloaded.log.read_text().count(why) >= TIMES, why
    with pytest.raises(redis.ResponseError, match="Error loading"):
        client.execute_command("MODULE", "LOAD", str(MODULE), "threshold", "5")
    assert "spreds takes no arguments: its settings are lines" in unloaded.log.read_text()
    assert not [name for name in thread_names(unloaded) if "ZMQ" in name]
    client.execute_command(*load, "spreds.endpoint", "ipc:///tmp/spreds-nobody")
    wait_until(lambda: client.info("spreds")["spreds_on"], lambda: client.info("spreds"))
    client.get("k")
    assert client.info("spreds")["spreds_seen_reads"] == 1
