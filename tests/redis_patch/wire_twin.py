"""The wire format once more, written down plainly: the twin that the C sampler is held against."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

HEADER = struct.Struct("<4s4HI11Q16s")
RECORD = struct.Struct("<QIHBBII")
HEADER_FIELDS = [
    "magic",
    "version",
    "header_bytes",
    "record_bytes",
    "source",
    "record_count",
    "instance",
    "sequence",
    "first_time_us",
    "last_time_us",
    "threshold",
    "modulus",
    "salt_id",
    "seen",
    "seen_reads",
    "sampled",
    "dropped",
    "secret",
]
BATCH_RECORDS = (16384 - HEADER.size) // RECORD.size
DB_UNKNOWN = 65535

READ_HIT, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION, FLUSH, SWAP = range(1, 9)
HAS_TTL, SIZE_KNOWN, TTL_KNOWN, SIZE_ALLOCATED = 1, 2, 4, 8

_WORD = 2**64 - 1


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _WORD) ^ (product >> 64)


def key_hash(key: bytes, salt: int) -> int:
    """The hash that WIRE_FORMAT.md defines."""
    k0, k1, k2 = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7
    state = salt ^ _fold(len(key) ^ k0, k1)
    for start in range(0, len(key), 8):
        state = _fold(state ^ int.from_bytes(key[start : start + 8], "little"), k1)
    return _fold(state ^ k2, k0)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _WORD


def _sip_round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & _WORD
    v[1] = _rotate(v[1], 13) ^ v[0]
    v[0] = _rotate(v[0], 32)
    v[2] = (v[2] + v[3]) & _WORD
    v[3] = _rotate(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & _WORD
    v[3] = _rotate(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & _WORD
    v[1] = _rotate(v[1], 17) ^ v[2]
    v[2] = _rotate(v[2], 32)


def siphash(message: bytes, key: bytes) -> int:
    """SipHash-2-4, as its paper defines it; ``key`` has 16 bytes."""
    k0, k1 = struct.unpack("<2Q", key)
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    whole = len(message) // 8 * 8
    words = [*struct.unpack(f"<{whole // 8}Q", message[:whole])]
    words.append(int.from_bytes(message[whole:], "little") | (len(message) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        _sip_round(v)
        _sip_round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        _sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def salt_id(salt: int) -> int:
    """The id of a salt that WIRE_FORMAT.md defines."""
    return siphash(b"spreds", struct.pack("<2Q", salt, 0))


class Record(NamedTuple):
    hash: int
    size_bytes: int
    db: int
    operation: int
    flags: int
    ttl_ms: int = 0
    time_us: int = 0


class Batch(NamedTuple):
    header: dict[str, int | bytes]
    records: list[Record]


def unpack(message: bytes) -> Batch:
    """A whole batch; its lengths must be those of version 3."""
    header = dict(zip(HEADER_FIELDS, HEADER.unpack_from(message), strict=True))
    assert header["magic"] == b"SPRD"
    assert (header["version"], header["header_bytes"], header["record_bytes"]) == (3, 120, 24)
    assert len(message) == HEADER.size + header["record_count"] * RECORD.size
    return Batch(header, [Record(*fields) for fields in RECORD.iter_unpack(message[HEADER.size :])])


def unpack_all(messages: bytes) -> tuple[list[Batch], bytes]:
    """Batches that stand one behind the other, and the rest, where the last is cut short."""
    batches, start = [], 0
    while start + HEADER.size <= len(messages):
        records = int.from_bytes(messages[start + 12 : start + 16], "little")
        end = start + HEADER.size + records * RECORD.size
        if end > len(messages):
            break
        batches.append(unpack(messages[start:end]))
        start = end
    return batches, messages[start:]


def batch_number(batch: Batch) -> int:
    """0 for the first that its sampler made."""
    return int(batch.header["sequence"]) % (1 << 22)


def pack(header: dict[str, int | bytes], records: Iterable[Record]) -> bytes:
    """The message of a batch."""
    fields = [header[name] for name in HEADER_FIELDS]
    return HEADER.pack(*fields) + b"".join(RECORD.pack(*record) for record in records)
