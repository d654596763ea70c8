"""The knobs of a running server, its counters, and the headers that its batches carry."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import redis

from tests.redis_patch.sampled_server import MODULUS, SALT, SampledServer, ServerKind, named
from tests.redis_patch.wire_twin import (
    DB_UNKNOWN,
    key_hash,
    salt_id,
)
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

SECRET = "0123456789abcdef" * 2


def test_off_until_an_endpoint_is_set(server: SampledServer) -> None:
    server.client.set("k", "v")
    server.client.get("k")
    assert server.get("endpoint") == ""
    assert (server.get("threshold"), server.get("modulus")) == ("167772", "16777216")
    counters = server.counters()
    assert (counters["on"], counters["seen"], counters["batches"]) == (0, 0, 0)
    threads = Path(f"/proc/{server.server.process.pid}/task").glob("*/comm")
    assert not [name for name in (thread.read_text() for thread in threads) if "ZMQ" in name]


@pytest.mark.parametrize(
    "knobs",
    [
        {"modulus": 3},
        {"modulus": 0},
        {"modulus": 2**33},
        {"modulus": 16},
        {"threshold": -1},
        {"threshold": MODULUS + 1},
        {"salt": -1},
        {"salt": "salt"},
        {"salt": 2**64},
        {"salt": 7, "modulus": 3},
        {"secret": "1" * 31},
        {"secret": "X" * 32},
        {"secret": SECRET, "modulus": 3},
        {"secret": SECRET, "endpoint": "tcp://192.0.2.1:80"},
        {"salt": 7, "endpoint": "tcp://192.0.2.1:80"},
        {"endpoint": "nowhere"},
        {"endpoint": "carrier-pigeon://coop"},
        {"threshold": 8, "modulus": 4},
        {"threshold": 1, "endpoint": "nowhere"},
    ],
    ids=str,
)
def test_a_bad_value_is_refused_and_changes_nothing(
    server: SampledServer, knobs: dict[str, object]
) -> None:
    server.start()
    before = [server.get(knob) for knob in ("endpoint", "threshold", "modulus")]
    with pytest.raises(redis.ResponseError):
        server.set(**knobs)
    assert [server.get(knob) for knob in ("endpoint", "threshold", "modulus")] == before
    server.client.get("still sampled")
    assert named(server.records(), ["still sampled"]) == ["miss still sampled"]
    assert server.batches[-1].header["secret"] == bytes(16)


def id_in_force(server: SampledServer) -> int:
    """Return the id of the salt, as the next header tells it."""
    server.receive()
    before = len(server.batches)
    server.set(endpoint=server.endpoint)
    wait_until(lambda: server.receive(20) or len(server.batches) > before, server.counters)
    return int(server.batches[-1].header["salt_id"])


def test_the_salt_is_random_unless_it_is_given(server: SampledServer) -> None:
    server.set(endpoint=server.endpoint)
    server.wait_until_connected()
    first = id_in_force(server)
    server.set(salt=0)
    second = id_in_force(server)
    server.set(salt=2**64 - 1)
    assert id_in_force(server) == salt_id(2**64 - 1)
    assert len({salt_id(0), first, second, salt_id(2**64 - 1)}) == 4


def test_no_command_tells_the_salt(server: SampledServer) -> None:
    """Not even by way of the configuration file; and setting what is shown changes nothing."""
    server.start(salt=123456789)
    told = [server.client.config_get("*"), server.client.info("everything"), server.counters()]
    assert not [text for text in map(str, told) if "123456789" in text or "salt_id" in text]
    assert server.get("salt") == ""
    server.set(salt="")
    assert id_in_force(server) == salt_id(123456789)
    server.client.slowlog_reset()
    server.client.config_set("slowlog-log-slower-than", 0)
    server.set(salt=987654321)
    is_hidden = "987654321" not in str(server.client.slowlog_get())
    assert is_hidden == (not server.kind.is_module)  # documented: servers do not hide modules'
    server.client.config_rewrite()
    file = (server.server.folder / "redis.conf").read_text()
    assert "987654321" not in file
    assert not re.search(r"salt .*\d", file)


def secret_in_force(server: SampledServer) -> bytes:
    """Return the secret, as the next header tells it."""
    id_in_force(server)
    return bytes(server.batches[-1].header["secret"])  # type: ignore[arg-type]


def test_each_batch_carries_the_secret_until_another_endpoint_is_set(
    server: SampledServer,
) -> None:
    server.start()
    assert secret_in_force(server) == bytes(16)
    server.set(secret=SECRET, endpoint=server.endpoint)
    assert secret_in_force(server).hex() == SECRET
    server.set(secret="")
    server.set(threshold=5)
    assert secret_in_force(server).hex() == SECRET
    server.set(endpoint="")
    server.set(endpoint=server.endpoint)
    server.wait_until_connected()
    assert secret_in_force(server) == bytes(16)


def test_the_secret_comes_with_its_endpoint(server: SampledServer) -> None:
    """Not one batch goes there without it."""
    server.set(secret=SECRET, endpoint=server.endpoint)
    server.wait_until_connected()
    assert {batch.header["secret"] for batch in server.batches} == {bytes.fromhex(SECRET)}


def test_no_command_tells_the_secret(server: SampledServer) -> None:
    server.start()
    server.client.slowlog_reset()
    server.client.config_set("slowlog-log-slower-than", 0)
    with server.client.monitor() as monitor:
        server.set(secret=SECRET)
        server.client.echo("end")
        heard = ""
        while "end" not in heard:
            heard += str(monitor.next_command())
    told = [server.client.config_get("*"), server.client.info("everything"), heard]
    assert not [text for text in map(str, told) if SECRET in text]
    assert server.get("secret") == ""
    is_hidden = SECRET not in str(server.client.slowlog_get())
    assert is_hidden == (not server.kind.is_module)  # documented: servers do not hide modules'
    server.client.config_rewrite()
    assert "secret" not in (server.server.folder / "redis.conf").read_text()


REMOTE = [
    *("tcp://192.0.2.1:5555", "tcp://127.0.0.1.example.org:5555", "tcp://0.0.0.0:5555"),
    *("tcp://192.0.2.1:0;127.0.0.1:5555", "tcp://[2001:db8::1]:5555", "tcp://12.7.0.1:5555"),
    *("tcp://127.0.0.1:0;192.0.2.1:5555", "tcp://localhost.example.org:5555", "tcp://127.1"),
]
LOCAL = ["tcp://127.0.0.1:5555", "tcp://127.1.2.3:5555", "tcp://localhost:5555", "tcp://[::1]:5555"]


def test_samples_stay_on_the_machine_while_the_server_runs(server: SampledServer) -> None:
    for endpoint in REMOTE:
        with pytest.raises(redis.ResponseError, match="loopback"):
            server.set(endpoint=endpoint)
        assert server.counters()["on"] == 0
    for endpoint in LOCAL:
        server.set(endpoint=endpoint)
        assert server.counters()["on"] == 1


def test_the_operators_file_may_send_them_elsewhere(kind: ServerKind) -> None:
    first, second = REMOTE[0], "tcp://192.0.2.2:5555"
    settings = {**kind.settings(), kind.knob("endpoint"): first}
    with LocalServer(settings, kind.binary) as server:
        assert server.client.info("spreds")["spreds_on"] == 1
        server.client.config_set(kind.knob("threshold"), 5)
        server.client.config_set(kind.knob("endpoint"), first)
        with pytest.raises(redis.ResponseError, match="loopback"):
            server.client.config_set(kind.knob("endpoint"), second)
    settings["enable-protected-configs"] = "yes"
    with LocalServer(settings, kind.binary) as server:
        server.client.config_set(kind.knob("endpoint"), second)


def test_the_header_says_what_is_in_force(server: SampledServer) -> None:
    server.start(threshold=1000)
    server.set(threshold=2000, salt=SALT + 1)
    header = server.batches[-1].header
    while header["threshold"] != 2000:  # the next heartbeat at the latest
        server.receive(20_000)
        header = server.batches[-1].header
    assert (header["threshold"], header["modulus"]) == (2000, MODULUS)
    assert header["salt_id"] == salt_id(SALT + 1)
    assert header["source"] == (2 if server.kind.is_module else 1)
    assert header["instance"] == int(server.client.info("server")["run_id"][:16], 16)


def test_one_batch_holds_one_rate_and_one_salt(server: SampledServer) -> None:
    """A change closes the batch: each record was sampled as its own header says."""
    server.start(threshold=MODULUS)
    for number in range(300):
        server.client.set(f"key:{number}", "v")
        if number % 20 == 10:
            server.set(threshold=(MODULUS // 2, MODULUS // 4, MODULUS)[number // 20 % 3])
        if number % 50 == 25:
            server.set(salt=SALT + number)
    server.records()
    salts = [SALT, *(SALT + number for number in range(300))]
    by_id = {salt_id(salt): salt for salt in salts}
    seen = set()
    for batch in server.batches:
        if not batch.records:
            continue
        salt = by_id[batch.header["salt_id"]]  # type: ignore[index]
        known = {key_hash(f"key:{number}".encode(), salt) for number in range(300)}
        for record in batch.records:
            assert record.hash % MODULUS < batch.header["threshold"]  # type: ignore[operator]
            assert record.hash in known
        seen.add((salt, batch.header["threshold"]))
    assert len(seen) > 8


def test_sequence_and_counters_are_cumulative(server: SampledServer) -> None:
    server.start(threshold=MODULUS // 2)
    for number in range(3000):
        server.client.set(f"key:{number}", "v")
        server.client.get(f"key:{number}")
    server.records()
    headers = [batch.header for batch in server.batches]
    sequences = [header["sequence"] for header in headers]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))  # type: ignore
    for earlier, later in itertools.pairwise(headers):
        assert earlier["last_time_us"] <= later["first_time_us"]  # type: ignore[operator]
        for name in ("seen", "seen_reads", "sampled", "dropped"):
            assert earlier[name] <= later[name]  # type: ignore[operator]
    counters = server.counters()
    assert counters["seen_reads"] == 3000 == headers[-1]["seen_reads"]
    assert counters["seen"] == 6000 == headers[-1]["seen"]
    assert counters["sampled"] == sum(len(batch.records) for batch in server.batches)
    assert counters["dropped"] == 0


def test_reads_are_counted_as_the_server_counts_them(server: SampledServer) -> None:
    """The correction of a curve needs the true number of reads: the server's own, for the patch."""
    server.start(threshold=0)
    server.client.config_resetstat()
    server.client.set("k", "v")
    for _ in range(10):
        server.client.get("k")
        server.client.mget("k", "none")
        server.client.touch("none")
    stats = server.client.info("stats")
    counters = server.counters()
    assert counters["seen_reads"] == 40 == stats["keyspace_hits"] + stats["keyspace_misses"]
    for command in ("EXISTS k none k", "TTL k", "TYPE none"):  # the server counts these as well
        server.raw(command)
    stats = server.client.info("stats")
    assert stats["keyspace_hits"] + stats["keyspace_misses"] == 45
    assert server.counters()["seen_reads"] == 40
    assert counters["sampled"] == 0


def test_all_records_of_a_key_carry_one_database(server: SampledServer) -> None:
    """Hits, misses, writes, deletes and expiries, by commands, transactions and scripts."""
    server.start()
    with redis.Redis.from_url(server.server.url, db=3) as client:
        client.get("k")
        client.set("k", "v", px=1)
        wait_until(lambda: not client.touch("k"), server.counters)
        client.set("k", "v")
        client.get("k")
        client.rename("k", "j")
        client.delete("j")
        transaction = client.pipeline(transaction=True)
        transaction.get("k").set("k", "v", ex=100).get("k")
        transaction.execute()
        script = "redis.call('GET', 'none') redis.call('GET', 'k') redis.call('SET', 'k', 1)"
        client.eval(script, 0)
        client.execute_command("EVAL_RO", "return redis.call('GET', 'k')", 0)
        client.delete("k")
    # On Redis 7.0 a command's filter does not learn the client's database.
    unknown = server.kind.source == "module_70"
    assert {record.db for record in server.records()} == {DB_UNKNOWN if unknown else 3}


def test_configured_in_the_file(kind: ServerKind) -> None:
    """An endpoint in the configuration file is in force from the start."""
    settings = {
        **kind.settings(),
        kind.knob("endpoint"): "ipc:///tmp/spreds-nobody-listens",
        kind.knob("threshold"): 5,
    }
    with LocalServer(settings, kind.binary) as server:
        info = server.client.info("spreds")
        assert (info["spreds_on"], info["spreds_threshold"]) == (1, 5)


def test_a_bad_configuration_file_stops_the_start(kind: ServerKind) -> None:
    settings = {**kind.settings(), kind.knob("modulus"): 12}
    with (
        pytest.raises(RuntimeError, match="modulus must be a power of two"),
        LocalServer(settings, kind.binary),
    ):
        pass
