"""Transactions, scripts and functions: each access once, by whichever way it is asked for."""

from __future__ import annotations

import pytest
import redis

from tests.redis_patch.sampled_server import SALT, SampledServer, ServerKind, named
from tests.redis_patch.wire_twin import DB_UNKNOWN, key_hash

READ_WRITE_READ = """
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], 'v')
return redis.call('GET', KEYS[1])
"""
REFUSED = """
redis.pcall('INCR', KEYS[1])
redis.pcall('NO SUCH COMMAND')
return redis.call('DEL', KEYS[1])
"""
LIBRARY = """#!lua name=lib
redis.register_function('f', function(keys, args)
  redis.call('SET', keys[1], 'v')
  return redis.call('GET', keys[1])
end)
"""
KEYS = ["k", "j"]


def run(server: SampledServer, *commands: list[str] | str) -> list[str]:
    """Run commands on one connection; what was recorded of them, in order."""
    before = len(server.records())
    with redis.Redis.from_url(server.server.url) as client:
        connection = client.connection_pool.get_connection()
        for command in commands:
            connection.send_command(*(command.split() if isinstance(command, str) else command))
            try:
                connection.read_response()
            except redis.ResponseError as error:
                assert "unknown" not in str(error) or command == "NONE", error  # noqa: PT017
    return named(server.records()[before:], KEYS)


def expect(
    kind: ServerKind, patch: list[str], module: list[str], module_70: list[str] | None = None
) -> list[str]:
    if kind.source == "module_70" and module_70 is not None:
        return module_70
    return module if kind.is_module else patch


def test_a_transaction_is_recorded_when_it_runs(server: SampledServer) -> None:
    server.start()
    events = run(server, "MULTI", "GET k", "SET k v", "GET k", "DEL k", "GET j", "EXEC")
    assert events == expect(
        server.kind,
        ["miss k", "write k", "hit k", "delete k", "miss j"],
        # Reads as they are queued; then what has come of k, which existed only within.
        ["miss k", "hit k", "miss j", "delete k"],
        # It sees what is queued, in that order, and takes the newest read of k for the miss.
        ["hit k", "write k", "miss k", "miss j", "delete k"],
    )
    assert run(server, "SET k v", "MULTI", "GET k", "EXEC", "GET k") == [
        "write k",
        "hit k",
        "hit k",
    ]


def test_a_discarded_transaction_does_nothing(server: SampledServer) -> None:
    server.start()
    for end in (["DISCARD"], ["NONE", "EXEC"]):
        events = run(server, "MULTI", "SET k v", "GET j", *end)
        assert events == expect(server.kind, [], ["miss j"], ["write k", "hit j"])
        assert run(server, "GET k") == ["miss k"]


def test_a_watched_key_that_changed(server: SampledServer) -> None:
    server.start()
    with redis.Redis.from_url(server.server.url, single_connection_client=True) as client:
        transaction = client.pipeline()
        transaction.watch("k")
        server.client.set("k", "changed")
        transaction.multi()
        transaction.set("k", "v")
        with pytest.raises(redis.WatchError):
            transaction.execute()
    events = named(server.records(), KEYS)
    assert events == expect(server.kind, ["write k"], ["write k"] * 2)


def test_what_a_script_does_is_counted_once(server: SampledServer) -> None:
    server.start()
    expected = ["miss k", "write k", "hit k"]
    assert run(server, ["EVAL", READ_WRITE_READ, "1", "k"]) == expected
    server.client.delete("k")
    digest = server.client.script_load(READ_WRITE_READ)
    assert run(server, ["EVALSHA", digest, "1", "k"]) == expected
    assert run(server, ["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "k"]) == ["hit k"]
    refused = run(server, ["EVAL", REFUSED, "1", "k"])
    assert refused == expect(server.kind, ["delete k"], ["write k", "delete k"])
    counters = server.counters()
    deletes = 1
    assert counters["sampled"] == counters["seen"] == 3 + deletes + 3 + 1 + len(refused)
    assert counters["seen_reads"] == 5


def test_what_a_function_does_is_counted_once(server: SampledServer) -> None:
    server.start()
    server.client.function_load(LIBRARY)
    assert run(server, "FCALL f 1 k") == ["write k", "hit k"]
    assert run(server, "MULTI", "FCALL f 1 k", "EXEC") == ["write k", "hit k"]
    assert server.counters()["seen"] == 4


def test_the_database_of_a_script(server: SampledServer) -> None:
    server.start()
    script = "redis.call('SET', 'k', 1) redis.call('SELECT', 7) redis.call('SET', 'k', 2)"
    before = len(server.records())
    server.raw(["EVAL", script, "0"])
    records = server.records()[before:]
    databases = [record.db for record in records if record.hash == key_hash(b"k", SALT)]
    assert databases == expect_databases(server.kind)


def expect_databases(kind: ServerKind) -> list[int]:
    return [DB_UNKNOWN, DB_UNKNOWN] if kind.source == "module_70" else [0, 7]


def test_a_long_transaction_fills_several_batches(server: SampledServer) -> None:
    """Where a batch was sent before EXEC, the module cannot turn its hits to misses: it counts."""
    reads = 5000
    server.start()
    transaction = server.client.pipeline(transaction=True)
    for _ in range(reads):
        transaction.get("k")
    assert transaction.execute() == [None] * reads
    events = named(server.records(), KEYS)
    late = server.counters().get("late_misses", 0)
    assert events.count("miss k") == reads - late
    assert events.count("hit k") == late
    assert (late > 0) == (server.kind.source == "module_70")


def test_what_waits_for_a_transaction_is_bounded(server: SampledServer) -> None:
    """512 keys, and 1 MiB of their names; what is more is recorded as it is asked for."""
    if not server.kind.is_module or server.kind.is_redis_70:
        pytest.skip("nothing waits here")
    server.start()
    keys = [f"k{number}" for number in range(600)]
    with redis.Redis.from_url(server.server.url, single_connection_client=True) as client:
        client.execute_command("MULTI")
        for key in keys:
            client.execute_command("SET", key, "v")
        assert server.counters()["unseen_changes"] == 88
        server.raw("SET other v")
        server.raw("DEL other")
        assert named(server.records(), ["other"])[88:] == ["write other", "delete other"]
        client.execute_command("EXEC")
        # In the order that they were asked for, but for those that were recorded at once.
        writes = [name for name in named(server.records(), keys) if name.startswith("write k")]
        assert sorted(writes) == sorted(f"write {key}" for key in keys)
        client.execute_command("MULTI")
        for number in range(5):
            client.execute_command("SET", str(number) * 300_000, "v")
        assert server.counters()["unseen_changes"] == 90
        client.execute_command("DISCARD")
        client.execute_command("MULTI")
        client.execute_command("DEL", "k0")
        client.execute_command("EXEC")
    assert server.counters()["unseen_changes"] == 90
    assert named(server.records(), ["k0"])[-1] == "delete k0"


def test_a_command_that_removes_thousands_of_keys(server: SampledServer) -> None:
    """Each is one delete, also one that is named again at once."""
    if server.kind.is_module and server.kind.is_redis_70:
        pytest.skip("there deletes come from events")
    keys = [f"k{number}" for number in range(5000)]
    server.client.mset(dict.fromkeys(keys, "v"))
    server.start()
    server.client.delete(*[key for key in keys for _ in range(2)])
    gone = named(server.records(), keys)
    assert sorted(gone) == sorted(f"delete {key}" for key in keys)
