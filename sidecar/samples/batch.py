"""Decodes the samples' wire format, ``redis_patch/WIRE_FORMAT.md``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library
from sidecar.samples.wire_format import (
    HEADER,
    MAGIC,
    MAX_MODULUS,
    OLD_SAMPLER,
    RECORD_BYTES,
    SOURCE_MODULE,
    SOURCE_PATCH,
    VERSION,
    Operation,
)

UIntArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]


class SampleError(ValueError):
    """A message is not a batch; ``reason`` is a short code to count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StrangerError(SampleError):
    """A message does not come from a sampler of ours, as far as it tells."""


class FormerSecretError(StrangerError):
    """It may come from one that has not been given the secret of this sidecar yet."""

    def __init__(self) -> None:
        super().__init__("secret", "may carry the secret of the sidecar before")


@dataclass(frozen=True, eq=False)
class Batch:
    """Holds one batch of samples of one server.

    Attributes:
        records: structured array, shape (record_count,), fields ``hash`` u64, ``size_bytes`` u32,
            ``db`` u16, ``operation`` u8, ``flags`` u8, ``ttl_ms`` u32, ``time_us`` u32.
        parts: what was joined to this one, if it is not one message (``joined``).

    The rest is the header, in the wire format's words; the counters are since the server started.
    """

    source: int
    records: npt.NDArray[np.void]
    instance: int
    sequence: int
    first_time_us: int
    last_time_us: int
    threshold: int
    modulus: int
    salt_id: int
    seen: int
    seen_reads: int
    sampled: int
    dropped: int
    secret: bytes
    parts: tuple[Batch, ...] = ()

    @property
    def population(self) -> tuple[int, int, int]:
        """Return which process's objects are sampled, and which of them at the same threshold."""
        return self.instance, self.salt_id, self.modulus

    @cached_property
    def operations(self) -> npt.NDArray[np.uint8]:
        """Return the records' operations, one beside the other, shape (record_count,)."""
        return np.ascontiguousarray(self.records["operation"])

    @cached_property
    def ids(self) -> UIntArray:
        """Return the records' objects, see ``object_ids``, shape (record_count,)."""
        return object_ids(self.records)

    @cached_property
    def times_us(self) -> FloatArray:
        """Return when each record was made, since the Unix epoch, shape (record_count,)."""
        parts = self.parts or (self,)
        firsts = np.array([part.first_time_us for part in parts], dtype=np.float64)
        times: FloatArray = np.repeat(firsts, [len(part.records) for part in parts])
        times += self.records["time_us"]
        return times


DB_SHIFT = 48
HASH_MASK = np.uint64((1 << DB_SHIFT) - 1)


def object_ids(records: npt.NDArray[np.void]) -> UIntArray:
    """Return the identity of each record's object: the db above the low 48 bits of the hash, which
    hold the bits that sampling looks at."""
    return np.asarray(
        (records["hash"] & HASH_MASK) | (records["db"].astype(np.uint64) << np.uint64(DB_SHIFT))
    )


_FIELDS = {
    "hash": "<u8",
    "size_bytes": "<u4",
    "db": "<u2",
    "operation": "u1",
    "flags": "u1",
    "ttl_ms": "<u4",
    "time_us": "<u4",
}


def record_type(record_bytes: int = RECORD_BYTES) -> np.dtype[np.void]:
    """Return the layout of a record that takes ``record_bytes``; what a sampler appends is
    skipped."""
    formats = list(_FIELDS.values())
    widths = [np.dtype(one).itemsize for one in formats]
    return np.dtype(
        {
            "names": list(_FIELDS),
            "formats": formats,
            "offsets": [sum(widths[:place]) for place in range(len(formats))],
            "itemsize": record_bytes,
        }
    )


_RECORD = record_type()
_FIRST_OPERATION, _LAST_OPERATION = int(min(Operation)), int(max(Operation))


def decode_batch(message: bytes, is_ours: Callable[[int, bytes], bool] | None = None) -> Batch:
    """Decode one ZeroMQ message as a batch.

    ``is_ours`` is asked first whether instance and secret belong together, and may raise
    FormerSecretError: of what comes from a stranger nothing else is looked at.

    Raises:
        StrangerError: nothing says that it comes from a sampler of ours: ``truncated``, ``magic``,
            ``version``, ``secret``.
        SampleError: with one of the reasons ``source``, ``header_length``, ``record_length``,
            ``message_length``, ``sampling``, ``time``, ``counters``, ``operation``,
            ``not_sampled``.
    """
    magic, version = message[:4], int.from_bytes(message[4:6], "little")
    if len(message) >= 6 and magic != MAGIC:
        raise StrangerError("magic", f"starts with {magic!r}, not {MAGIC!r}")
    if len(message) >= 6 and version != VERSION:
        raise StrangerError("version", _version_words(version))
    if len(message) < HEADER.size:
        raise StrangerError(
            "truncated", f"{len(message)} bytes are fewer than a header's {HEADER.size}"
        )
    _, _, header_bytes, record_bytes, source, count, *fields = HEADER.unpack_from(message)
    if is_ours is not None and not is_ours(fields[0], fields[-1]):
        raise StrangerError("secret", "does not carry the secret of a server of this node")
    if source not in (SOURCE_PATCH, SOURCE_MODULE):
        raise SampleError(
            "source",
            f"source {source} is neither patch ({SOURCE_PATCH}) nor module ({SOURCE_MODULE})",
        )
    if header_bytes < HEADER.size:
        raise SampleError("header_length", f"header_bytes {header_bytes} < {HEADER.size}")
    if record_bytes < RECORD_BYTES:
        raise SampleError("record_length", f"record_bytes {record_bytes} < {RECORD_BYTES}")
    if len(message) != header_bytes + count * record_bytes:
        raise SampleError(
            "message_length",
            f"{len(message)} bytes, where {count} records need {header_bytes}"
            f" + {count} x {record_bytes}",
        )
    layout = _RECORD if record_bytes == RECORD_BYTES else record_type(record_bytes)
    records = np.frombuffer(message, layout, count, header_bytes)
    batch = Batch(source, records, *fields)
    _check(batch)
    return batch


def _version_words(version: int) -> str:
    if version < VERSION:
        return f"is of version {version}: {OLD_SAMPLER}"
    return (
        f"is of version {version}, and this sidecar reads {VERSION}: it is older than the sampler"
    )


def _check(batch: Batch) -> None:
    modulus, threshold = batch.modulus, batch.threshold
    if not 1 <= modulus <= MAX_MODULUS or modulus & (modulus - 1) or threshold > modulus:
        raise SampleError(
            "sampling", f"T = {threshold} and P = {modulus} do not give a sampling rate"
        )
    if batch.last_time_us < batch.first_time_us:
        raise SampleError("time", f"ends at {batch.last_time_us}, before {batch.first_time_us}")
    if batch.seen_reads > batch.seen or batch.dropped > batch.sampled:
        raise SampleError("counters", "a part of a counter exceeds the whole")
    if not len(batch.records):
        return
    if not library().spreds_records_check(
        *(batch.records.ctypes.data, batch.records.strides[0], len(batch.records)),
        *(modulus, threshold),
    ):
        return
    # The error for several wrong records does not depend on their order.
    operations = batch.operations
    if operations.min() < _FIRST_OPERATION or operations.max() > _LAST_OPERATION:
        raise SampleError("operation", "a record has an operation outside 1..8")
    outside = (batch.records["hash"] & np.uint64(modulus - 1)) >= np.uint64(threshold)
    if outside.any() and np.any(outside & (operations < Operation.FLUSH)):
        raise SampleError("not_sampled", "a record's hash is not below the threshold")
