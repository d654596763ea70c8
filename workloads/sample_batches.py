"""Batches of samples as a server's sampler would send them, made from arrays of accesses.

For tests and experiments that need a stream of samples without a server, or a very large one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sidecar.samples.batch import record_type
from sidecar.samples.wire_format import (
    DEFAULT_MODULUS,
    FLAG_SIZE_ALLOCATED,
    FLAG_SIZE_KNOWN,
    FLAG_TTL,
    FLAG_TTL_KNOWN,
    HEADER,
    K0,
    K1,
    K2,
    MAGIC,
    MAX_BATCH_RECORDS,
    SECRET_BYTES,
    SOURCE_PATCH,
    VERSION,
    Operation,
    fold,
    key_hash,
)

UIntArray = npt.NDArray[np.uint64]


def number_hashes(numbers: npt.ArrayLike, salt: int) -> UIntArray:
    """``key_hash`` of whole numbers as keys of 8 bytes; shape as given."""
    state = np.uint64(salt ^ fold(8 ^ K0, K1))
    words = np.asarray(numbers).astype(np.uint64)
    return _fold_all(_fold_all(words ^ state, K1) ^ np.uint64(K2), K0)


def _fold_all(words: UIntArray, factor: int) -> UIntArray:
    """``fold`` of each word: the 128-bit product from four 32-bit ones."""
    half, low_bits = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0 = words >> half, words & low_bits
    b1, b0 = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    low, middle, other = a0 * b0, a1 * b0, a0 * b1
    carry = (low >> half) + (middle & low_bits) + (other & low_bits)
    high = a1 * b1 + (middle >> half) + (other >> half) + (carry >> half)
    return np.asarray(words * np.uint64(factor) ^ high)


class SampledServer:
    """Stands for one server's sampler: keeps its counters and sequence from batch to batch."""

    def __init__(
        self,
        instance: int = 1,
        threshold: int = DEFAULT_MODULUS,
        modulus: int = DEFAULT_MODULUS,
        salt: int = 0,
        secret: bytes = bytes(SECRET_BYTES),
    ) -> None:
        self.instance = instance
        self.threshold = threshold
        self.modulus = modulus
        self.salt = salt
        self.secret = secret
        self._sequence = self._seen = self._seen_reads = self._sampled = 0

    def batches(
        self,
        hashes: UIntArray,
        operations: npt.ArrayLike,
        sizes_bytes: npt.ArrayLike = 0,
        *,
        ttl: npt.ArrayLike = False,
        ttls_ms: npt.ArrayLike = -1,
        dbs: npt.ArrayLike = 0,
        times_us: npt.ArrayLike = 0,
        batch_records: int = MAX_BATCH_RECORDS,
    ) -> Iterator[bytes]:
        """Encode accesses; all arrays of shape (n,) or scalar, sizes 0 and negative TTLs meaning
        unknown; ``ttl`` says whether there is one that is not known.

        What is not sampled only counts. A last, perhaps empty batch brings the counters up to date.
        """
        count = len(hashes)
        operations = np.broadcast_to(np.asarray(operations, np.uint8), count)
        times = np.broadcast_to(np.asarray(times_us, np.int64), count)
        sampled = (hashes & np.uint64(self.modulus - 1)) < np.uint64(self.threshold)
        places = np.flatnonzero(sampled | (operations >= Operation.FLUSH))
        records = np.zeros(len(places), record_type())
        sizes = np.broadcast_to(np.asarray(sizes_bytes, np.uint32), count)[places]
        records["hash"] = hashes[places]
        records["size_bytes"] = sizes
        records["db"] = np.broadcast_to(np.asarray(dbs, np.uint16), count)[places]
        records["operation"] = operations[places]
        # Nothing is added to them: there is no allocator.
        known = FLAG_SIZE_KNOWN | FLAG_SIZE_ALLOCATED
        records["flags"] = np.where(sizes > 0, known, 0) | np.where(
            np.broadcast_to(ttl, count)[places], FLAG_TTL, 0
        )
        ttls = np.broadcast_to(np.asarray(ttls_ms, np.int64), count)[places]
        records["ttl_ms"] = np.maximum(ttls, 0)
        records["flags"] |= np.where(ttls >= 0, FLAG_TTL | FLAG_TTL_KNOWN, 0).astype(np.uint8)
        reads = np.concatenate(([0], np.cumsum(operations <= Operation.READ_MISS)))
        start = 0
        while True:
            part = slice(start, start + batch_records)
            mine = places[part]
            if len(mine):
                records["time_us"][part] = times[mine] - times[mine[0]]
            last = len(places) <= start + batch_records
            seen = count if last else int(mine[-1]) + 1
            yield self._encode(
                records[part],
                self._seen + seen,
                self._seen_reads + int(reads[seen]),
                (int(times[mine[0]]), int(times[mine[-1]])) if len(mine) else (0, 0),
            )
            if last:
                break
            start += batch_records
        self._seen += count
        self._seen_reads += int(reads[-1])

    def _encode(
        self, records: npt.NDArray[np.void], seen: int, seen_reads: int, times_us: tuple[int, int]
    ) -> bytes:
        self._sampled += len(records)
        header = HEADER.pack(
            MAGIC, VERSION, HEADER.size, records.dtype.itemsize, SOURCE_PATCH, len(records),
            self.instance, self._sequence, *times_us, self.threshold, self.modulus,
            key_hash(b"spreds", self.salt), seen, seen_reads, self._sampled, 0, self.secret,
        )  # fmt: skip
        self._sequence += 1
        return header + records.tobytes()
