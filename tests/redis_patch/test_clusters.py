"""Cluster mode: what is refused or sent elsewhere is no access; what moves away is deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.redis_patch.sampled_server import SALT, SampledServer, ServerKind, named
from tests.redis_patch.wire_twin import READ_HIT, SIZE_KNOWN, WRITE, key_hash
from workloads.local_node import wait_until
from workloads.local_server import LocalServer, free_port

KEYS = ["k", "foo", "bar"]  # in the slots 7629, 12182 and 5061


def cluster_settings() -> dict[str, object]:
    return {
        "port": free_port(),
        "bind": "127.0.0.1",
        "cluster-port": free_port(),
        "cluster-enabled": "yes",
        "cluster-require-full-coverage": "no",
    }


@pytest.fixture
def node(kind: ServerKind) -> Iterator[SampledServer]:
    """One node that has the lower three quarters of the slots, and keys."""
    with SampledServer(kind, cluster_settings()) as server:
        server.raw("CLUSTER ADDSLOTSRANGE 0 11999")
        wait_until(lambda: b"cluster_state:ok" in raw_info(server), lambda: raw_info(server))
        server.start()
        yield server


def raw_info(server: SampledServer) -> bytes:
    answer = server.raw("CLUSTER INFO")
    return answer if isinstance(answer, bytes) else str(answer).encode()


@pytest.fixture
def other(kind: ServerKind) -> Iterator[LocalServer]:
    """An unsampled server of the same make, a cluster node of its own."""
    if not kind.stock.exists():
        pytest.skip(f"{kind.stock.name} is not built")
    with LocalServer(cluster_settings(), kind.stock) as server:
        yield server


def test_what_a_node_serves_and_what_it_loses(node: SampledServer, other: LocalServer) -> None:
    """It refuses keys of others; another node claims a slot, and the keys in it are deleted."""
    assert node.raw("SET k v") == b"OK"
    assert node.raw("GET k") == b"v"
    assert node.raw("GET bar") is None
    elsewhere = node.raw("GET foo")
    assert isinstance(elsewhere, redis.ResponseError), elsewhere
    across = node.raw("MGET k bar")
    assert isinstance(across, redis.ResponseError), across
    slot = node.raw("CLUSTER KEYSLOT k")
    other.client.execute_command("CLUSTER SET-CONFIG-EPOCH", 7)
    other.client.execute_command("CLUSTER ADDSLOTS", slot)
    port, bus = (other.client.config_get(name)[name] for name in ("port", "cluster-port"))
    node.raw(f"CLUSTER MEET 127.0.0.1 {port} {bus}")
    wait_until(lambda: node.client.dbsize() == 0, lambda: raw_info(node))
    # Documented: the module does not see it, and looks at keys of commands that are refused.
    deleted = [] if node.kind.is_module else ["delete k"]
    looked_at = ["miss foo", "hit k", "miss bar"]
    if node.kind.source == "module_70":
        looked_at = ["hit foo", "hit k", "hit bar"]
    refused = looked_at if node.kind.is_module else []
    events = ["write k", "hit k", "miss bar", *refused, *deleted]
    assert named(node.records(), KEYS) == events


def test_sizes_are_asked_for_where_the_slot_is(node: SampledServer) -> None:
    assert node.raw("HSET k field v") == 1
    elsewhere = node.raw("HGET foo field")
    assert isinstance(elsewhere, redis.ResponseError), elsewhere
    assert node.raw("HGET k field") == b"v"
    known = {r.operation: bool(r.flags & SIZE_KNOWN) for r in node.records() if r.hash == hash_k()}
    assert known == {WRITE: True, READ_HIT: True}
    assert node.client.ping()


def hash_k() -> int:
    return key_hash(b"k", SALT)


def test_a_key_that_migrates(kind: ServerKind) -> None:
    if not kind.stock.exists():
        pytest.skip(f"{kind.stock.name} is not built")
    settings: dict[str, object] = {"port": free_port(), "bind": "127.0.0.1"}
    port = settings["port"]
    with SampledServer(kind) as server, LocalServer(settings, kind.stock) as to:
        server.start()
        server.raw("SET k v")
        server.raw("SET bar v")
        assert server.raw(f"MIGRATE 127.0.0.1 {port} k 0 10000") == b"OK"
        assert server.raw(f"MIGRATE 127.0.0.1 {port} bar 0 10000 COPY") == b"OK"
        assert to.client.dbsize() == 2
        copied = [] if kind.is_module else ["hit bar"]
        moved = ["delete k"] if kind.is_module else ["hit k", "delete k"]
        assert named(server.records(), KEYS) == ["write k", "write bar", *moved, *copied]
