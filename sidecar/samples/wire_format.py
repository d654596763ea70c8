"""Holds constants and hash of the samples' wire format, ``redis_patch/WIRE_FORMAT.md``, version 3.

Needs the standard library only: ``spreds mrc`` starts without numpy.
"""

from __future__ import annotations

import struct
from enum import IntEnum

MAGIC = b"SPRD"
VERSION = 3
HEADER = struct.Struct("<4sHHHHI11Q16s")
RECORD_BYTES = 24
SECRET_BYTES = 16
OLD_SAMPLER = (
    "its sampler is older than this sidecar: load the new module, or start the server with the "
    "new patch"
)
MAX_BATCH_BYTES = 16_384
MAX_BATCH_RECORDS = (MAX_BATCH_BYTES - HEADER.size) // RECORD_BYTES
SOURCE_PATCH, SOURCE_MODULE = 1, 2
FLAG_TTL = 1
FLAG_SIZE_KNOWN = 2
FLAG_TTL_KNOWN = 4
FLAG_SIZE_ALLOCATED = 8
# A record's db when the sampler does not know it, and a flush's when it means every db.
UNKNOWN_DB = 0xFFFF
# P, unless an operator chooses another one.
DEFAULT_MODULUS = 1 << 24
MAX_MODULUS = 1 << 32
# A gap of so many sequence numbers means that another sampler began, as when a module is loaded
# again.
SEQUENCES_OF_A_SAMPLER = 1 << 22

# Of the hash.
K0, K1, K2 = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7
MAX_WORD = (1 << 64) - 1


class Operation(IntEnum):
    """Says what happened to a key (or, for the last two, to a whole db)."""

    READ_HIT = 1
    READ_MISS = 2
    WRITE = 3
    DELETE = 4
    EXPIRY = 5
    EVICTION = 6
    FLUSH = 7
    SWAP = 8


def fold(a: int, b: int) -> int:
    """XOR the two halves of the 128-bit product of two 64-bit words."""
    product = a * b
    return (product & MAX_WORD) ^ (product >> 64)


def key_hash(key: bytes, salt: int) -> int:
    """Return the hash of one key, a 64-bit word as ``salt`` is."""
    state = salt ^ fold(len(key) ^ K0, K1)
    for start in range(0, len(key), 8):
        state = fold(state ^ int.from_bytes(key[start : start + 8], "little"), K1)
    return fold(state ^ K2, K0)
