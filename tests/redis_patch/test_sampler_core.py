"""The sampler's core, run by its driver, against the test vector and against a plain twin."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.redis_patch.wire_twin import (
    BATCH_RECORDS,
    DB_UNKNOWN,
    DELETE,
    FLUSH,
    HAS_TTL,
    HEADER_FIELDS,
    READ_HIT,
    READ_MISS,
    SWAP,
    TTL_KNOWN,
    WRITE,
    Record,
    key_hash,
    pack,
    salt_id,
    siphash,
    unpack,
)
from workloads.local_server import BUILD, built

VECTOR = json.loads(
    (Path(__file__).parents[2] / "redis_patch" / "test_vector.json").read_text(encoding="utf-8")
)
FLUSH_US = 50_000
HEARTBEAT_US = 1_000_000


ARM64 = BUILD / "bin" / "sampler-driver-arm64"


@pytest.fixture(params=["this processor", "arm64"])
def driver(request: pytest.FixtureRequest) -> list[str | Path]:
    """The driver on each processor that it is built for."""
    if request.param != "arm64":
        return [built("bin/sampler-driver")]
    if not (ARM64.exists() and shutil.which("qemu-aarch64-static")):
        pytest.skip("not built for arm64 (redis_patch/build.sh portable), or no qemu-user-static")
    return ["qemu-aarch64-static", ARM64]


def run(script: Sequence[str], driver: Sequence[str | Path] = ()) -> list[str]:
    """Return what the driver prints; it is built with sanitizers, and must end well."""
    result = subprocess.run(
        driver or [built("bin/sampler-driver")],
        input="".join(f"{line}\n" for line in script),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def hexadecimal(key: bytes) -> str:
    return key.hex() or "-"


class SamplerTwin:
    """The same commands in plain Python; ``printed`` is what the driver must print."""

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.open: list[tuple[Record, int]] = []
        self.on = False
        self.accept = True
        self.threshold, self.modulus, self.salt = 167772, 16777216, 0
        self.carried = bytes(16)
        self.source = self.instance = self.sequence = 0
        self.seen_reads = self.seen_others = self.sampled = self.dropped = 0
        self.since_us = self.wait_us = 0

    def init(self, source: int, instance: int) -> None:
        self.source, self.instance = source, instance

    def sampling(self, threshold: int, modulus: int, salt: int, now: int) -> None:
        if modulus > 2**32 or bin(modulus).count("1") != 1 or threshold > modulus:
            self.printed.append("invalid")
            return
        if self.open:
            self.flush(now)
        self.threshold, self.modulus, self.salt = threshold, modulus, salt
        self.wait(0, now)

    def secret(self, digits: str) -> None:
        self.carried = bytes.fromhex(digits)

    def wait(self, us: int, now: int) -> None:
        self.since_us, self.wait_us = now, us

    def start(self, now: int) -> None:
        self.on = True
        self.wait(0, now)

    def stop(self, now: int) -> None:
        if self.open:
            self.flush(now)
        self.on = False

    def tick(self, now: int) -> None:
        if not self.since_us <= now < self.since_us + self.wait_us:
            self.flush(now)

    def flush(self, now: int) -> None:
        if not self.on:
            return
        times = [time for _, time in self.open] or [now]
        header: dict[str, Any] = {
            "magic": b"SPRD",
            "version": 3,
            "header_bytes": 120,
            "record_bytes": 24,
            "source": self.source,
            "record_count": len(self.open),
            "instance": self.instance,
            "sequence": self.sequence,
            "first_time_us": times[0],
            "last_time_us": max(times),
            "threshold": self.threshold,
            "modulus": self.modulus,
            "salt_id": salt_id(self.salt),
            "seen": self.seen_reads + self.seen_others,
            "seen_reads": self.seen_reads,
            "sampled": self.sampled,
            "dropped": self.dropped,
            "secret": self.carried,
        }
        records = [
            record._replace(time_us=min(max(times[: place + 1]) - times[0], 2**32 - 1))
            for place, (record, _) in enumerate(self.open)
        ]
        message = pack(header, records)
        self.printed.append(f"{'batch' if self.accept else 'refused'} {message.hex()}")
        if not self.accept:
            self.dropped += len(self.open)
        self.sequence += 1
        self.open = []
        self.wait(HEARTBEAT_US, now)

    def read(self, key: bytes, *fields: int) -> None:
        self.seen_reads += self.on
        self._access(key, fields)

    def other(self, key: bytes, *fields: int) -> None:
        self.seen_others += self.on
        self._access(key, fields)

    def _access(self, key: bytes, fields: Sequence[int]) -> None:
        hashed = key_hash(key, self.salt)
        if self.on and hashed % self.modulus < self.threshold:
            self.record(hashed, *fields)

    def record(
        self, hashed: int, operation: int, flags: int, db: int, size: int, ttl: int, now: int
    ) -> None:
        if len(self.open) == BATCH_RECORDS:
            self.flush(now)
        due_us = self.since_us + self.wait_us
        if not self.open and self.since_us <= now < due_us - FLUSH_US:
            self.wait(FLUSH_US, now)
        if ttl >= 0:
            flags |= HAS_TTL | TTL_KNOWN
        left = min(max(ttl, 0), 2**32 - 1)
        self.open.append((Record(hashed, min(size, 2**32 - 1), db, operation, flags, left), now))
        self.sampled += 1

    def apply(self, command: tuple[Any, ...]) -> None:
        name, *arguments = command
        if name == "accept":
            self.accept = bool(arguments[0])
        else:
            getattr(self, name)(*arguments)


def script_line(command: tuple[Any, ...]) -> str:
    return " ".join(hexadecimal(x) if isinstance(x, bytes) else str(x) for x in command)


def test_hashes_of_the_vector(driver: list[str | Path]) -> None:
    cases = VECTOR["hashes"]
    printed = run([f"hash {case['salt']} {case['key_hex'] or '-'}" for case in cases], driver)
    assert printed == [f"hash {case['hash']}" for case in cases]
    assert [key_hash(bytes.fromhex(case["key_hex"]), case["salt"]) for case in cases] == [
        case["hash"] for case in cases
    ]


def test_the_id_of_a_salt_is_a_siphash() -> None:
    """Which cannot be inverted; this is the value that its authors give."""
    assert siphash(bytes(range(15)), bytes(range(16))) == 0xA129CA6149BE45E5
    begin = ["init 1 1", "start 0"]
    for salt in (0, 1, 2**63, 2**64 - 1):
        (batch,) = run([*begin, f"sampling 1 1 {salt} 0", "tick 0"])
        assert unpack(bytes.fromhex(batch.split()[1])).header["salt_id"] == salt_id(salt)


def test_batch_of_the_vector(driver: list[str | Path]) -> None:
    vector = VECTOR["batch"]
    message = bytes.fromhex(vector["hex"])
    batch = unpack(message)
    assert batch.header == {
        **vector["header"],
        "magic": b"SPRD",
        "secret": bytes.fromhex(vector["header"]["secret"]),
    }
    assert [record._asdict() for record in batch.records] == vector["records"]
    assert list(batch.header) == HEADER_FIELDS == list(vector["header"])

    # The sampler makes the same bytes, if its counters are brought there first.
    header, salt = vector["header"], vector["salt"]
    unsampled = next(
        key
        for key in (b"%d" % number for number in range(1000))
        if key_hash(key, salt) % header["modulus"] >= header["threshold"]
    )
    writes = header["seen"] - header["seen_reads"]
    script = [
        f"init {header['source']} {header['instance']}",
        f"sampling {header['threshold']} {header['modulus']} {salt} 0",
        f"secret {header['secret']}",
        "start 0",
        "accept 0",
        *["record 1 1 0 0 0 -1 0"] * header["dropped"],
        "flush 0",
        "accept 1",
        *["record 1 1 0 0 0 -1 0"] * (header["sampled"] - header["dropped"] - len(batch.records)),
        *["flush 0"] * (header["sequence"] - 1),
        *[f"read {unsampled.hex()} 1 0 0 0 -1 0"] * header["seen_reads"],
        *[f"other {unsampled.hex()} 3 0 0 0 -1 0"] * writes,
    ]
    script += [
        f"record {r.hash} {r.operation} {r.flags} {r.db} {r.size_bytes}"
        f" {r.ttl_ms if r.flags & TTL_KNOWN else -1} {header['first_time_us'] + r.time_us}"
        for r in batch.records
    ]
    assert run([*script, "flush 0"], driver)[-1] == f"batch {vector['hex']}"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=70)), min_size=1, max_size=200)
)
def test_hash_equals_its_definition(cases: list[tuple[int, bytes]]) -> None:
    printed = run([f"hash {salt} {hexadecimal(key)}" for salt, key in cases])
    assert printed == [f"hash {key_hash(key, salt)}" for salt, key in cases]


COMMANDS = st.one_of(
    st.tuples(
        st.sampled_from(["read", "other"]),
        st.sampled_from([b"key:%d" % number for number in range(40)]),
        st.integers(1, 6),
        st.integers(0, 3),
        st.sampled_from([0, 15, DB_UNKNOWN]),
        st.sampled_from([0, 100, 2**32 - 2, 2**32 - 1, 2**32, 2**40]),
        st.sampled_from([-1, 0, 60_000, 2**32 - 2, 2**32 - 1, 2**32, 2**40]),
    ),
    st.tuples(
        st.just("record"),
        st.just(0),
        st.sampled_from([FLUSH, SWAP]),
        st.just(0),
        st.integers(0, 15),
        st.integers(0, 15),
        st.just(-1),
    ),
    st.tuples(
        st.just("sampling"),
        st.sampled_from([0, 1, 7, 64, 2**32]),
        st.sampled_from([0, 1, 3, 16, 64, 2**32, 2**33]),
        st.integers(0, 3),
    ),
    st.tuples(st.sampled_from(["tick", "tick", "flush", "start", "stop"])),
    st.tuples(st.just("accept"), st.integers(0, 1)),
    st.tuples(st.just("secret"), st.sampled_from(["00" * 16, "0123456789abcdef" * 2])),
)
UNTIMED = ("accept", "secret")
STEPS_US = [0, 1, 20_000, 50_000, 999_999, -30_000, -3_000_000, 2**33]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(COMMANDS, st.sampled_from(STEPS_US)), max_size=150))
def test_every_script_prints_what_the_twin_prints(
    steps: list[tuple[tuple[Any, ...], int]],
) -> None:
    twin = SamplerTwin()
    now = 10_000_000_000
    script: list[tuple[Any, ...]] = [("init", 2, 77), ("sampling", 64, 64, 1, now), ("start", now)]
    for command, step in steps:
        now += step
        script.append(command if command[0] in UNTIMED else (*command, now))
    # A record is only ever made while the sampler is on.
    kept = []
    on = True
    for command in script:
        on = {"start": True, "stop": False}.get(command[0], on)
        if on or command[0] != "record":
            kept.append(command)
    kept.append(("flush", now))
    for command in kept:
        twin.apply(command)
    assert run([script_line(command) for command in kept]) == twin.printed


@pytest.mark.parametrize("digits", ["a0", "a" * 31, "a" * 33, "A" * 32, "g" * 32, "-" + "0" * 31])
def test_a_secret_is_32_digits(digits: str) -> None:
    assert run(["init 1 1", f"secret {digits}"]) == ["invalid"]


def test_a_full_batch_is_sent_by_the_next_record() -> None:
    full = [f"record {number} 1 0 0 0 -1 5" for number in range(BATCH_RECORDS)]
    begin = ["init 1 1", "sampling 1 1 1 0", "start 0"]
    assert run([*begin, *full]) == []
    (printed,) = run([*begin, *full, "record 99 1 0 0 0 -1 6"])
    message = bytes.fromhex(printed.split()[1])
    assert len(message) <= 16384
    assert [record.hash for record in unpack(message).records] == list(range(BATCH_RECORDS))


def test_amend_finds_the_newest_record_of_its_operation() -> None:
    script = [
        *["init 2 1", "sampling 1 1 1 0", "start 0"],
        *[f"record 5 {READ_HIT} 0 0 0 -1 0", f"record 5 {WRITE} 0 0 0 -1 0"],
        *[f"record 5 {READ_HIT} 0 0 0 -1 0", f"record 6 {READ_HIT} 0 0 0 -1 0"],
        f"amend 5 {READ_HIT} 3 {READ_MISS}",
        f"amend 5 {READ_HIT} 2 {READ_MISS}",
        f"amend 7 {READ_HIT} 0 {READ_MISS}",
        "flush 0",
        f"amend 5 {READ_HIT} 0 {READ_MISS}",
    ]
    too_old, other_key, batch, sent = run(script)
    assert (too_old, other_key, sent) == ("none", "none", "none")
    records = unpack(bytes.fromhex(batch.split()[1])).records
    assert [r.operation for r in records] == [READ_HIT, WRITE, READ_MISS, READ_HIT]


@pytest.mark.parametrize(("asked", "flushed"), [(10, False), (11, True), (5000, True)])
def test_reserve_keeps_what_follows_in_one_batch(asked: int, flushed: bool) -> None:
    held = [f"record {number} 1 0 0 0 -1 5" for number in range(BATCH_RECORDS - 10)]
    printed = run(["init 1 1", "sampling 1 1 1 0", "start 0", *held, f"reserve {asked}"])
    assert bool(printed) is flushed


def test_a_clock_that_steps_back_holds_nothing_up() -> None:
    begin = ["init 1 1", "sampling 1 1 1 9000000", "start 9000000", "tick 9000000"]
    assert len(run([*begin, "tick 9999999"])) == 1
    assert len(run([*begin, "tick 1000000", "tick 1999999", "tick 2000000"])) == 3
    script = [*begin, "record 5 1 0 0 0 -1 9000001", "record 6 1 0 0 0 -1 1000000", "tick 1000000"]
    header = unpack(bytes.fromhex(run(script)[1].split()[1])).header
    assert header["first_time_us"] == header["last_time_us"] == 9000001


def test_a_sampler_made_later_has_higher_sequences() -> None:
    batches = run(
        [line for ms in (7, 8) for line in (f"init 1 1 {ms}", "start 0", *["flush 0"] * 3)]
    )
    sequences = [unpack(bytes.fromhex(b.split()[1])).header["sequence"] for b in batches]
    assert sequences == [ms * 2**22 + number for ms in (7, 8) for number in range(3)]


def test_a_refused_command_is_taken_back() -> None:
    operations = [READ_HIT, WRITE, READ_HIT, READ_MISS, WRITE, DELETE]
    script = [
        *["init 2 1", "sampling 1 1 1 0", "start 0"],
        *[f"record {place} {operation} 0 0 0 -1 0" for place, operation in enumerate(operations)],
        *["takeback 2", "record 9 1 0 0 0 -1 0", "flush 0", "takeback 5"],
    ]
    batch = unpack(bytes.fromhex(run(script)[0].split()[1]))
    assert [record.hash for record in batch.records] == [0, 1, 5, 9]
    assert batch.header["sampled"] == 4


def test_a_forked_child_sends_nothing() -> None:
    script = [
        "init 1 1",
        "sampling 1 1 1 0",
        "start 0",
        "read 61 1 0 0 0 -1 0",
        "fork",
        "tick 60000",
    ]
    child, batch = run(script)
    assert child == "child 0"
    assert len(unpack(bytes.fromhex(batch.split()[1])).records) == 1
