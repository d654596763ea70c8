"""Sampling is exact: what a server records of every kind of command is what they do to keys."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.redis_patch.command_cases import CASES, ELSEWHERE, UNCHECKED, Case
from tests.redis_patch.sampled_server import (
    MODULUS,
    SALT,
    SampledServer,
    ServerKind,
    named,
)
from tests.redis_patch.wire_twin import FLUSH, READ_HIT, WRITE, Record, key_hash

KEYS = ["k", "j", "i"]


def run_cases(server: SampledServer, cases: list[Case]) -> list[Any]:
    """Run each case on empty databases, between reads of two keys that nothing else uses.

    Return the last reply of each.
    """
    server.raw("SET dumped value")
    dumped = server.raw("DUMP dumped")
    replies = []
    for number, case in enumerate(cases):
        server.raw("FLUSHALL")
        for command in case.setup.split(";"):
            if command.strip():
                reply = server.raw(command.strip())
                assert not isinstance(reply, Exception), f"{command}: {reply}"
        server.raw(f"GET begin:{number}")
        for command in case.command.split(";"):
            words = command.split()
            reply = server.raw([dumped if word == "DUMPED" else word for word in words])
        replies.append(reply)
        server.raw(f"GET end:{number}")
    return replies


def events_by_case(records: list[Record], count: int) -> list[list[str]]:
    """The events between the two markers of each case, sorted."""
    markers = [f"{edge}:{number}" for number in range(count) for edge in ("begin", "end")]
    events: list[list[str]] = []
    inside = False
    for event in named(records, [*KEYS, *markers]):
        name = event.removeprefix("miss ")
        if name.startswith("begin:"):
            events.append([])
            inside = True
        elif name.startswith("end:"):
            inside = False
        elif inside:
            events[-1].append(event)
    return [sorted(case) for case in events]


def test_every_command_is_recorded_as_worked_out(server: SampledServer) -> None:
    server.start()
    replies = run_cases(server, CASES)
    unknown = {
        case.command
        for case, reply in zip(CASES, replies, strict=True)
        if isinstance(reply, Exception) and "unknown command" in str(reply)
    }
    found = events_by_case(server.records(), len(CASES))
    wrong = [
        f"{case.setup} | {case.command}: {events}, not {case.expected(server.kind.source)}"
        for case, events in zip(CASES, found, strict=True)
        if case.command not in unknown and events != case.expected(server.kind.source)
    ]
    assert not wrong, "\n".join(wrong)


def timeless(record: Record) -> Record:
    """Return what does not depend on when it happened."""
    return record._replace(ttl_ms=0, time_us=0)


def test_a_lower_rate_records_the_same_of_the_keys_it_takes(server: SampledServer) -> None:
    """What T < P takes is the subset of what T = P takes, record by record."""
    script = [*CASES, *UNCHECKED]
    server.start(threshold=MODULUS)
    run_cases(server, script)
    everything = server.records()
    server.set(threshold=MODULUS // 3)
    before = len(everything)
    run_cases(server, script)
    sampled = server.records()[before:]
    expected = [r for r in everything if r.operation >= 7 or r.hash % MODULUS < MODULUS // 3]
    assert Counter(map(timeless, sampled)) == Counter(map(timeless, expected))
    assert 0 < len(sampled) < len(everything)


def test_no_command_is_forgotten(server: SampledServer) -> None:
    """Each command of Redis 7.0 that names keys stands in the list of cases."""
    if not server.kind.is_redis_70:
        pytest.skip("later servers have commands that not all servers have")
    tested = {
        word
        for case in [*CASES, *UNCHECKED]
        for words in [case.command.lower().split()]
        for word in (words[0], "|".join(words[:2]))
    }

    def with_keys(entries: list[Any]) -> Iterator[str]:
        for entry in entries:
            if entry[8]:
                yield entry[0].decode()
            yield from with_keys(entry[9])

    assert set(with_keys(server.raw("COMMAND"))) - tested - set(ELSEWHERE) == set()


@pytest.mark.parametrize("renamed", ["GET", "SET"])
def test_names_that_are_hardly_any_are_refused_where_one_is_renamed(
    kind: ServerKind, renamed: str
) -> None:
    """Of nothing, blanks and zero bytes no letters are left, as there are none of what is gone."""
    with SampledServer(kind, {"rename-command": f'{renamed} ""'}) as server:
        server.start()
        for length in range(1, 45):
            for name in (b"", b"\0", b"\0\0", b"\0\0\0", b"   ", b" \0 ", b"get", b"SET"):
                key = b"\0" * length
                words = [name, key] if name == b"get" else [name, key, b"\0 \0"]
                reply = server.raw(words)
                is_known = name.upper() in (b"GET", b"SET") and name.upper().decode() != renamed
                assert isinstance(reply, Exception) != is_known, (name, length)
        assert server.client.ping()


NAMES = [("SET", "GET"), ("set", "get"), ("sEt", "GeT"), ("SET", "STRLEN")]


def test_keys_of_every_length_are_named_by_their_hash(server: SampledServer) -> None:
    """Short ones lie elsewhere in a server's strings than long ones; some look like numbers."""
    draw = random.Random(7)
    keys = [draw.randbytes(length) for length in range(301)]
    keys += [b"7", b"12345", b"-1", b"9223372036854775807", b"3.5", b"x" * 70_000]
    server.start()
    for place, key in enumerate(keys):
        write, read = NAMES[place % len(NAMES)]
        server.raw([write, key, "value"])
        server.raw([read, key])
    found = [(r.hash, r.operation) for r in server.records() if r.operation < FLUSH]
    expected = [(key_hash(key, SALT), what) for key in keys for what in (WRITE, READ_HIT)]
    assert Counter(found) == Counter(expected)
    info = server.client.info("spreds")
    assert info["spreds_seen"] == len(expected)
    assert info["spreds_seen_reads"] == len(keys)
