"""What a module must not do to the clients it looks at: move them, or crash their server."""

from __future__ import annotations

import pytest
import redis

from tests.redis_patch.sampled_server import MODULUS, SampledServer, named
from tests.redis_patch.wire_twin import SIZE_KNOWN

COPY_SCRIPT = """
redis.call('SELECT', 5)
redis.call('COPY', KEYS[1], KEYS[1], 'DB', 2, 'REPLACE')
redis.call('SET', 'in script', 'v')
redis.call('COPY', KEYS[1], KEYS[1], 'DB', 3, 'REPLACE')
redis.call('SET', 'late in script', 'v')
"""

FOLLOWING = [
    "by copy",
    "by move",
    "in transaction",
    "late in transaction",
    "by transaction",
    "in script",
    "late in script",
    "by script",
]


def has_no_touch(server: SampledServer) -> bool:
    return not isinstance(server.raw("CLIENT NO-TOUCH OFF"), Exception)


def databases_with(server: SampledServer, key: str) -> set[int]:
    """The databases that hold ``key``."""
    found = set()
    for database in range(16):
        with redis.Redis.from_url(server.server.url, db=database) as client:
            if client.get(key):
                found.add(database)
    return found


def set_expired(client: redis.Redis, key: str) -> None:
    """Sets a key and waits until it has expired, without asking for it."""

    def time_ms() -> int:
        seconds, microseconds = client.time()
        return 1000 * seconds + microseconds // 1000

    end_ms = time_ms() + 2
    client.set(key, "v", pxat=end_ms)
    while time_ms() <= end_ms:
        pass


def copy_in_every_way(server: SampledServer) -> None:
    """COPY and MOVE into other databases, from database 5; what follows must run in 5."""
    client = redis.Redis.from_url(server.server.url, db=5, single_connection_client=True)
    client.flushall()
    client.set("k", "v")
    client.execute_command("COPY", "k", "k", "DB", "1")
    client.set("by copy", "v")
    client.copy("k", "k2", replace=True)
    client.move("k2", 4)
    client.set("by move", "v")
    transaction = client.pipeline(transaction=True)
    transaction.execute_command("COPY", "k", "k", "DB", "2", "REPLACE")
    transaction.set("in transaction", "v")
    transaction.execute_command("COPY", "k", "k", "DB", "3", "REPLACE")
    transaction.set("late in transaction", "v")
    transaction.execute()
    client.set("by transaction", "v")
    client.eval(COPY_SCRIPT, 1, "k")
    client.set("by script", "v")
    client.close()
    places = {key: databases_with(server, key) for key in ["k", "k2", *FOLLOWING]}
    assert places == {"k": {1, 2, 3, 5}, "k2": {4}} | {key: {5} for key in FOLLOWING}


def test_clients_stay_in_their_database(server: SampledServer) -> None:
    """While sampling is on, after it was switched off, and when it is on again."""
    copy_in_every_way(server)
    server.start()
    copy_in_every_way(server)
    server.set(endpoint="")
    copy_in_every_way(server)
    server.start()
    copy_in_every_way(server)


SCRIPTS = ["redis.call('GET', KEYS[1])", "redis.call('SELECT', 3) redis.call('GET', KEYS[1])"]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("threshold", [1, MODULUS], ids=["unsampled", "sampled"])
def test_another_clients_script_moves_nobody(
    server: SampledServer, threshold: int, script: str
) -> None:
    """Its commands have passed when the script ends, and the next client finds an expired key."""
    server.start(threshold)
    server.raw("DEBUG SET-ACTIVE-EXPIRE 0")
    server.client.eval(script, 1, "k")
    with redis.Redis.from_url(server.server.url, db=5, single_connection_client=True) as other:
        set_expired(other, "expired")
        server.client.eval(script, 1, "k")
        assert other.get("expired") is None
        other.set("after it", "v")
    assert databases_with(server, "after it") == {5}


SERVING_SCRIPT = """
redis.call('SELECT', 5)
redis.call('SET', 'first', 'v', 'PX', 1)
for i = 1, 3000000 do end
redis.call('RPUSH', 'second', 'v')
redis.call('SELECT', 0)
"""


def test_a_script_that_serves_a_blocked_client_does_not_move_it(server: SampledServer) -> None:
    """It finds an expired key in its own database, and no command has passed since the script."""
    server.start()
    server.raw("DEBUG SET-ACTIVE-EXPIRE 0")
    with redis.Redis.from_url(server.server.url, db=5, single_connection_client=True) as waiting:
        connection = waiting.connection
        assert connection
        connection.send_command("BLPOP", "first", "second", "20")
        while not server.client.info("clients")["blocked_clients"]:
            pass
        server.client.eval(SERVING_SCRIPT, 0)
        assert connection.read_response() == [b"second", b"v"]
        waiting.set("after it", "v")
    assert databases_with(server, "after it") == {5}


def test_a_script_in_a_transaction_leaves_it_in_its_database(server: SampledServer) -> None:
    """What COPY finds expired in another database is found there before and after the script."""
    server.start()
    server.raw("DEBUG SET-ACTIVE-EXPIRE 0")
    with redis.Redis.from_url(server.server.url, db=5, single_connection_client=True) as client:
        client.set("k", "v")
        with redis.Redis.from_url(server.server.url, db=2) as elsewhere:
            set_expired(elsewhere, "k")
        transaction = client.pipeline(transaction=True)
        transaction.eval("redis.call('SELECT', 3) redis.call('SET', 'by script', 'v')", 0)
        transaction.execute_command("COPY", "k", "k", "DB", "2")
        transaction.set("after it", "v")
        transaction.execute()
    assert databases_with(server, "by script") == {3}
    assert databases_with(server, "after it") == {5}


def test_a_client_may_ask_not_to_touch(server: SampledServer) -> None:
    """Redis since 7.2 and Valkey crash if a filter opens a key for such a client."""
    with redis.Redis.from_url(server.server.url, single_connection_client=True) as early:
        if not has_no_touch(server):
            pytest.skip("this server has no CLIENT NO-TOUCH")
        early.client_no_touch("ON")
        server.start()
        early.set("k", "v")
        assert early.get("k") == b"v"
        early.client_no_touch("OFF")
    server.raw("CLIENT NO-TOUCH ON")
    for _ in range(3):
        server.raw("GET k")
        server.raw("GET none")
    assert named(server.records(), ["k"]) == ["write k"]  # its reads are no references


def test_a_client_that_begins_not_to_touch(server: SampledServer) -> None:
    if not has_no_touch(server):
        pytest.skip("this server has no CLIENT NO-TOUCH")
    server.start()
    server.raw("SET k v")
    server.raw("GET k")
    server.raw("CLIENT NO-TOUCH ON")
    server.raw("GET k")
    records = server.records()
    assert named(records, ["k"]) == ["write k", "hit k"]
    before = len(records)
    with redis.Redis.from_url(server.server.url) as other:
        other.get("k")
    assert server.records()[before].flags & SIZE_KNOWN
    server.raw("CLIENT NO-TOUCH OFF")
    server.set(endpoint="")
    server.start()
    before = len(server.records())
    server.raw("GET k")
    assert server.records()[before].flags & SIZE_KNOWN


def test_many_clients_that_touch_nothing(server: SampledServer) -> None:
    """Also in a transaction, before and after they are refused, and after most of them are gone."""
    if not has_no_touch(server):
        pytest.skip("this server has no CLIENT NO-TOUCH")
    server.start()
    server.raw("SET k v")
    for number in range(100):
        with redis.Redis.from_url(server.server.url, single_connection_client=True) as client:
            transaction = client.pipeline(transaction=True)
            transaction.execute_command("CLIENT", "NO-TOUCH", "ON")
            transaction.get("k")
            if number % 2:
                transaction.execute()
            else:
                client.execute_command("CLIENT", "NO-TOUCH", "ON")
            assert client.get("k") == b"v"
    before = len(server.records())
    server.raw("GET k")
    assert server.records()[before].flags & SIZE_KNOWN
