"""What the records say exists is what exists: also where a command takes the last of a key."""

from __future__ import annotations

import pytest

from tests.redis_patch.command_cases import CASES, Case
from tests.redis_patch.sampled_server import SampledServer, named
from workloads.local_node import wait_until

LAST_ONE = [
    Case(setup, command, "")
    for setup, command in [
        ("RPUSH k a", "LPOP k"),
        ("RPUSH k a", "RPOP k 5"),
        ("RPUSH k a", "LREM k 0 a"),
        ("RPUSH k a", "LTRIM k 5 9"),
        ("RPUSH k a", "LMOVE k j LEFT LEFT"),
        ("RPUSH k a", "LMOVE k k LEFT RIGHT"),
        ("RPUSH k a", "RPOPLPUSH k j"),
        ("RPUSH k a", "LMPOP 1 k LEFT COUNT 9"),
        ("RPUSH k a", "BLPOP k 0"),
        ("RPUSH k a", "BRPOP i k 0"),
        ("RPUSH k a", "BLMPOP 0 1 k LEFT"),
        ("RPUSH k a", "BLMOVE k j LEFT LEFT 0"),
        ("SADD k a", "SREM k a b"),
        ("SADD k a", "SPOP k"),
        ("SADD k a b", "SPOP k 2"),
        ("SADD k a b c d e f g", "SPOP k 6"),
        ("SADD k a", "SMOVE k j a"),
        ("HSET k f v", "HDEL k f g"),
        ("ZADD k 1 a", "ZREM k a"),
        ("ZADD k 1 a", "ZPOPMIN k"),
        ("ZADD k 1 a 2 b", "ZPOPMAX k 2"),
        ("ZADD k 1 a", "ZMPOP 1 k MIN"),
        ("ZADD k 1 a", "BZPOPMIN k 0"),
        ("ZADD k 1 a", "BZMPOP 0 1 k MAX"),
        ("ZADD k 1 a", "ZREMRANGEBYSCORE k 0 9"),
        ("ZADD k 1 a", "ZREMRANGEBYRANK k 0 9"),
        ("ZADD k 1 a", "ZREMRANGEBYLEX k - +"),
        ("SADD k a; SADD j b; SADD i c", "SINTERSTORE i k j"),
        ("SADD k a; SADD i c", "SDIFFSTORE i k k"),
        ("SADD i c", "SUNIONSTORE i k j"),
        ("ZADD k 1 a; ZADD i 1 a", "ZINTERSTORE i 2 k j"),
        ("ZADD i 1 a", "ZRANGESTORE i k 0 9"),
        ("ZADD i 1 a", "GEOSEARCHSTORE i k FROMLONLAT 1 1 BYRADIUS 1 km"),
        ("SET i v", "BITOP NOT i k"),
        ("XADD k 1-1 f v", "XDEL k 1-1"),
        ("SET k v", "GETDEL k"),
        ("SET k v", "GETEX k PXAT 1"),
        ("SET k v", "PEXPIREAT k 1"),
        ("SET k v", "RESTORE k 1 DUMPED REPLACE ABSTTL"),
        ("SET k v; SET j w", "RENAME k j"),
        ("SET k v", "RENAME k k"),
        ("SET k v", "COPY k j REPLACE"),
        ("SET k v", "UNLINK k"),
        ("SET k v EX 100", "SET k w"),
    ]
]
KEYS = ["k", "j", "i"]
GONE = {"delete", "expiry", "eviction", "miss"}


def existing(events: list[str]) -> set[str]:
    """The keys that exist, as the records since the last flush say."""
    keys: set[str] = set()
    for event in events:
        operation, _, key = event.partition(" ")
        if operation == "flush":
            keys.clear()
        elif operation in GONE:
            keys.discard(key)
        else:
            keys.add(key)
    return keys


def test_the_records_say_which_keys_exist(server: SampledServer) -> None:
    server.start()
    server.raw("SET dumped value")
    dumped = server.raw("DUMP dumped")
    exceptions = {
        # Databases: what a MOVE writes stands in another one.
        "MOVE k 1",
        # Documented of the module on Redis 7.0: a write that does not come about.
        *({"SET k v XX", "MSETNX k v j w"} if server.kind.source == "module_70" else ()),
    }
    cases = [case for case in [*LAST_ONE, *CASES] if case.command not in exceptions]
    truth = []
    for case in cases:
        server.raw("FLUSHALL")
        for command in [*case.setup.split(";"), *case.command.split(";")]:
            words = [dumped if word == "DUMPED" else word for word in command.split()]
            if words:
                server.raw(words)
        truth.append({key for key in KEYS if key.encode() in server.client.keys("*")})
    told: list[list[str]] = []
    for event in named(server.records(), [*KEYS, "dumped"]):
        if event == "flush":
            told.append([])
        elif told:
            told[-1].append(event)
    wrong = [
        f"{case.setup} | {case.command}: {events}, but {sorted(keys)} exist"
        for case, events, keys in zip(cases, told, truth, strict=True)
        if existing(events) != keys
    ]
    assert not wrong, "\n".join(wrong)


def has_fields_that_expire(server: SampledServer) -> bool:
    return server.raw("COMMAND INFO HPEXPIRE") != [None]


def test_a_hash_whose_last_field_is_set_to_expire_in_the_past(server: SampledServer) -> None:
    if not has_fields_that_expire(server):
        pytest.skip("this server's fields do not expire")
    server.start()
    server.raw("HSET k f v")
    assert server.raw("HPEXPIREAT k 1 FIELDS 1 f") == [2]
    assert server.client.dbsize() == 0
    assert named(server.records(), ["k"])[-1] == "delete k"


def test_a_hash_whose_last_field_expires(server: SampledServer) -> None:
    if not has_fields_that_expire(server):
        pytest.skip("this server's fields do not expire")
    server.start()
    server.raw("HSET k f v")
    server.raw("HPEXPIRE k 200 FIELDS 1 f")
    wait_until(lambda: server.client.dbsize() == 0, lambda: "the hash is still there")
    # Documented: Redis tells a module of keys that expire, and of no such hash.
    is_unseen = server.kind.is_module and server.kind.server.package == "redis"
    last = "write k" if is_unseen else "expiry k"
    assert named(server.records(), ["k"])[-1] == last


def test_a_hash_of_which_one_field_expires_is_still_there(server: SampledServer) -> None:
    """Valkey's event for a field is one of those for keys that expire."""
    if not has_fields_that_expire(server):
        pytest.skip("this server's fields do not expire")
    server.start()
    server.raw("HSET k f v g w")
    server.raw("HPEXPIRE k 100 FIELDS 1 f")
    wait_until(lambda: server.client.hlen("k") == 1, lambda: "the field is still there")
    assert not GONE & {one.partition(" ")[0] for one in named(server.records(), ["k"])}
