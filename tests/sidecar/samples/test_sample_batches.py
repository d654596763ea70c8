"""The decoder: the documented layout, and a reason for each way to be malformed."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from sidecar.samples.batch import SampleError, StrangerError, decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import HEADER, RECORD_BYTES, key_hash
from tests.redis_patch.wire_twin import salt_id
from workloads.sample_batches import SampledServer, number_hashes

HEADER_FIELDS = """source instance sequence first_time_us last_time_us threshold modulus salt_id
seen seen_reads sampled dropped"""
TEST_VECTOR = Path(__file__).parents[3] / "redis_patch" / "test_vector.json"


def encoded(count: int = 3, threshold: int = MODULUS) -> bytes:
    server = SampledServer(instance=7, threshold=threshold, salt=5)
    hashes = number_hashes(np.arange(count), 5)
    return next(server.batches(hashes, 1, 100 + np.arange(count), times_us=10 + np.arange(count)))


def changed(message: bytes, offset: int, layout: str, value: int) -> bytes:
    copy = bytearray(message)
    struct.pack_into("<" + layout, copy, offset, value)
    return bytes(copy)


def test_batch_is_read_as_it_was_written() -> None:
    batch = decode_batch(encoded())
    assert (batch.source, batch.instance, batch.sequence) == (1, 7, 0)
    assert (batch.first_time_us, batch.last_time_us) == (10, 12)
    assert (batch.threshold, batch.modulus) == (MODULUS, MODULUS)
    assert batch.salt_id == key_hash(b"spreds", 5)  # that server takes it for its id
    assert (batch.seen, batch.seen_reads, batch.sampled, batch.dropped) == (3, 3, 3, 0)
    assert batch.records["hash"].tolist() == [
        key_hash(n.to_bytes(8, "little"), 5) for n in range(3)
    ]
    assert batch.records["size_bytes"].tolist() == [100, 101, 102]
    assert batch.records["operation"].tolist() == [1, 1, 1]
    assert batch.records["flags"].tolist() == [10, 10, 10]
    assert batch.records["db"].tolist() == [0, 0, 0]


def test_longer_header_and_records_are_skipped_over() -> None:
    message = encoded()
    longer = bytearray(message[: HEADER.size] + b"new")
    struct.pack_into("<HH", longer, 6, HEADER.size + 3, RECORD_BYTES + 4)
    for place in range(HEADER.size, len(message), RECORD_BYTES):
        longer += message[place : place + RECORD_BYTES] + b"more"
    batch = decode_batch(bytes(longer))
    assert batch.records["size_bytes"].tolist() == [100, 101, 102]
    assert batch.times_us.tolist() == [10, 11, 12]


def test_what_a_record_tells_of_ttl_and_time() -> None:
    server = SampledServer(threshold=MODULUS)
    messages = server.batches(
        number_hashes(np.arange(4), 0),
        3,
        ttl=[False, True, False, False],
        ttls_ms=[-1, -1, 0, 2**32 - 1],
        times_us=[10, 10, 250, 9_000],
    )
    batch = decode_batch(next(messages))
    assert batch.records["flags"].tolist() == [0, 1, 5, 5]
    assert batch.records["ttl_ms"].tolist() == [0, 0, 0, 2**32 - 1]
    assert batch.times_us.tolist() == [10, 10, 250, 9_000]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("truncated", b""),
        ("truncated", encoded()[:119]),
        ("magic", b"X" + encoded()[1:]),
        ("version", changed(encoded(), 4, "H", 0)),
        ("version", changed(encoded(), 4, "H", 1)),
        ("version", changed(encoded(), 4, "H", 2)),
        ("version", changed(encoded(), 4, "H", 4)),
        ("source", changed(encoded(), 10, "H", 3)),
        ("header_length", changed(encoded(), 6, "H", 96)),
        ("record_length", changed(encoded(), 8, "H", 23)),
        ("message_length", encoded() + b"\0"),
        ("message_length", encoded()[:-1]),
        ("message_length", changed(encoded(), 12, "I", 2**32 - 1)),
        ("sampling", changed(encoded(), 56, "Q", 0)),
        ("sampling", changed(encoded(), 56, "Q", 3 << 23)),
        ("sampling", changed(encoded(), 56, "Q", 1 << 33)),
        ("sampling", changed(encoded(), 48, "Q", MODULUS + 1)),
        ("time", changed(encoded(), 32, "Q", 13)),
        ("counters", changed(encoded(), 80, "Q", 4)),
        ("counters", changed(encoded(), 96, "Q", 4)),
        ("operation", changed(encoded(), HEADER.size + 14, "B", 0)),
        ("operation", changed(encoded(), HEADER.size + 14, "B", 9)),
        ("not_sampled", changed(encoded(), 48, "Q", 1)),
    ],
)
def test_malformed_batch_is_refused_with_its_reason(reason: str, message: bytes) -> None:
    with pytest.raises(SampleError) as refusal:
        decode_batch(message)
    assert refusal.value.reason == reason


def test_an_older_samplers_batch_says_what_to_do() -> None:
    with pytest.raises(StrangerError, match=r"load the new module, or .* the new patch"):
        decode_batch(changed(encoded(), 4, "H", 2)[:104])


def test_of_a_stranger_nothing_else_is_looked_at() -> None:
    asked = []

    def is_ours(instance: int, secret: bytes) -> bool:
        asked.append((instance, secret))
        return False

    with pytest.raises(StrangerError) as refusal:
        decode_batch(changed(encoded(), 10, "H", 3), is_ours)
    assert refusal.value.reason == "secret"
    assert asked == [(7, bytes(16))]


def test_flush_is_taken_whatever_its_hash() -> None:
    message = changed(encoded(1), HEADER.size + 14, "B", 7)
    assert len(decode_batch(changed(message, 48, "Q", 0)).records) == 1


def test_hashes_of_the_vector_shared_with_the_sampler() -> None:
    cases = json.loads(TEST_VECTOR.read_text())["hashes"]
    assert cases
    for case in cases:
        assert key_hash(bytes.fromhex(case["key_hex"]), case["salt"]) == case["hash"]


def test_the_batch_of_the_vector_shared_with_the_sampler() -> None:
    expected = json.loads(TEST_VECTOR.read_text())["batch"]
    batch = decode_batch(bytes.fromhex(expected["hex"]))
    header = expected["header"]
    for field in HEADER_FIELDS.split():
        assert getattr(batch, field) == header[field], field
    assert batch.secret == bytes.fromhex(header["secret"])
    assert batch.salt_id == salt_id(expected["salt"])
    fields = list(expected["records"][0])
    assert batch.records[fields].tolist() == [
        tuple(record[field] for field in fields) for record in expected["records"]
    ]
    sampled = {key_hash(key.encode(), expected["salt"]) for key in expected["sampled_keys"]}
    assert {int(h) for h in batch.records["hash"]} - {0} >= sampled
