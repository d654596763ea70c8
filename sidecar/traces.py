"""Traces from files: who asked for which key, when, and how large the object was.

Formats (the file's name and first line tell which; ``format`` overrides):

* ``csv``: ``time,key,size`` in seconds and bytes, with or without a header line; a header may name
  the columns as libCacheSim's examples do, and in any order;
* ``cachelib``: CacheLib's key-value traces. Only reads (GET, GET_LEASE) are kept, ``op_count``
  times each; the size is that of key and value;
* ``cache2k``: raw big-endian int32 keys, without times (0) or sizes (1);
* ``oracle-general``: libCacheSim's binary records of 24 bytes: u32 time, u64 key, u32 size, i64
  position of the next request, little-endian.

Each may be compressed (``.zst``, ``.xz``, ``.gz``).
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FORMATS = ("csv", "cachelib", "cache2k", "oracle-general")
CHUNK_BYTES = 1 << 22
ORACLE_GENERAL_RECORD = np.dtype(
    [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next_request", "<i8")]
)
COLUMN_NAMES = {
    "time": ("time", "timestamp", "clock_time", "op_time"),
    "key": ("key", "obj_id", "object", "obj", "id", "lbn"),
    "size": ("size", "obj_size", "object_size", "len"),
}
READS = (b"GET", b"GET_LEASE")


class TraceError(ValueError):
    """A trace cannot be read; the message names the file and, where there are lines, the line."""


@dataclass(frozen=True, eq=False)
class TraceChunk:
    """Consecutive requests of a trace.

    Attributes:
        times_seconds: shape (n,), float64; since the trace's own origin.
        keys: shape (n,), uint64 identities: a decimal key is its own identity, another text
            has a 64-bit hash of it.
        sizes_bytes: shape (n,), uint32; key and value.
        texts: the keys as they stand in the file (decimal for binary formats), if asked for.
    """

    times_seconds: npt.NDArray[np.float64]
    keys: npt.NDArray[np.uint64]
    sizes_bytes: npt.NDArray[np.uint32]
    texts: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.keys)


def identity(text: bytes) -> int:
    """The u64 that stands for a key's text."""
    if text.isdigit() and len(text) <= 19 and (text[0] != 48 or len(text) == 1):
        return int(text)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def read_trace(path: Path, format: str | None = None, texts: bool = False) -> Iterator[TraceChunk]:  # noqa: A002
    """The requests of a file, in order, a few megabytes at a time; no chunk is empty.

    Args:
        path: of the file.
        format: one of ``FORMATS``, or ``None`` to find out.
        texts: also give each key's text.

    Raises:
        TraceError: the file is missing, of no known format, or has a line that does not parse.
    """
    blocks = _blocks(path)
    first = next(blocks, b"")
    if not first:
        return
    blocks = chain((first,), blocks)
    kind = format or _guess_format(path, first)
    if kind == "csv":
        yield from _read_csv(path, _lines(path, blocks), texts)
    elif kind == "cachelib":
        yield from _read_cachelib(path, _lines(path, blocks), texts)
    elif kind == "cache2k":
        yield from _read_cache2k(path, blocks, texts)
    elif kind == "oracle-general":
        yield from _read_oracle_general(path, blocks, texts)
    else:
        raise TraceError(f"{path}: format {kind!r} is none of {', '.join(FORMATS)}")


def load_trace(
    path: Path,
    format: str | None = None,  # noqa: A002
    texts: bool = False,
    limit: int | None = None,
) -> TraceChunk:
    """The whole trace, or its first ``limit`` requests, as one chunk.

    Raises:
        TraceError: as ``read_trace``, or the trace is empty.
    """
    chunks = []
    missing = limit
    for chunk in read_trace(path, format, texts):
        chunks.append(chunk)
        if missing is not None:
            missing -= len(chunk)
            if missing <= 0:
                break
    if not chunks:
        raise TraceError(f"{path}: the trace has no requests")
    return TraceChunk(
        np.concatenate([chunk.times_seconds for chunk in chunks])[:limit],
        np.concatenate([chunk.keys for chunk in chunks])[:limit],
        np.concatenate([chunk.sizes_bytes for chunk in chunks])[:limit],
        [text for chunk in chunks for text in chunk.texts or ()][:limit] if texts else None,
    )


def _blocks(path: Path) -> Iterator[bytes]:
    """The decompressed contents; a file that is cut off is an error, not a short trace."""
    try:
        if path.suffix == ".zst":
            yield from _zstandard_blocks(path)
            return
        opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
        with opener(path, "rb") as file:
            while block := file.read(CHUNK_BYTES):
                yield block
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TraceError(f"{path}: cannot be read: {why}") from error


def _zstandard_blocks(path: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise TraceError(
            f"{path}: reading .zst needs the Python package 'zstandard' (pip install zstandard)"
        ) from error
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("rb") as file:
            while block := file.read(CHUNK_BYTES // 4):
                while block:
                    if frame.eof:
                        frame = zstandard.ZstdDecompressor().decompressobj()
                    yield from filter(None, (frame.decompress(block),))
                    block = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise TraceError(f"{path}: cannot be read: {error}") from error
    if not frame.eof:
        raise TraceError(f"{path}: cannot be read: the compressed data is cut off")


def _guess_format(path: Path, first: bytes) -> str:
    name = path.name.lower()
    if ".trace" in name:
        return "cache2k"
    if "oraclegeneral" in name or name.split(".")[-1] == "bin":
        return "oracle-general"
    if ".csv" in name or ".txt" in name:
        return "cachelib" if first.startswith(b"op_time,") else "csv"
    raise TraceError(f"{path}: the name does not tell the format; give one of {', '.join(FORMATS)}")


def _lines(path: Path, blocks: Iterator[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines, a block at a time, with the number of the first."""
    number = 1
    rest = b""
    for block in blocks:
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            lines = whole.split(b"\n")
            yield number, lines
            number += len(lines)
        elif len(rest) > CHUNK_BYTES:
            raise TraceError(f"{path}: line {number}: longer than {CHUNK_BYTES} bytes")
    if rest:
        yield number, [rest]


def _read_csv(
    path: Path, blocks: Iterator[tuple[int, list[bytes]]], texts: bool
) -> Iterator[TraceChunk]:
    columns: dict[str, int] = {}
    for number, lines in blocks:
        if not columns:
            columns, lines = _csv_columns(path, lines)
            number += columns.pop("header")
        time, key, size = columns["time"], columns["key"], columns["size"]
        times, keys, sizes = [], [], []
        for place, line in enumerate(lines):
            if not line.strip():
                continue
            fields = line.split(b",")
            try:
                times.append(_time(fields[time]))
                keys.append(_filled(fields[key]))
                sizes.append(_size(fields[size]))
            except (ValueError, IndexError) as error:
                raise _bad_line(path, number + place, line, error) from error
        if keys:
            yield _chunk(times, keys, sizes, texts)


def _csv_columns(path: Path, lines: list[bytes]) -> tuple[dict[str, int], list[bytes]]:
    """Place of each column, how many lines the header has (``header``), and the other lines."""
    names = [
        name.strip(b'# \r"').decode("utf-8", "replace").lower() for name in lines[0].split(b",")
    ]
    if lines[0][:1].isdigit():
        return {"time": 0, "key": 1, "size": 2, "header": 0}, lines
    columns = {"header": 1}
    for column, known in COLUMN_NAMES.items():
        places = [place for place, name in enumerate(names) if name in known]
        if not places:
            raise TraceError(
                f"{path}: line 1: the header {lines[0][:80]!r} names no column for the {column} "
                f"(one of {', '.join(known)})"
            )
        columns[column] = places[0]
    return columns, lines[1:]


def _read_cachelib(
    path: Path, blocks: Iterator[tuple[int, list[bytes]]], texts: bool
) -> Iterator[TraceChunk]:
    header: list[bytes] = []
    for number, lines in blocks:
        if not header:
            header = [name.strip() for name in lines[0].split(b",")]
            for name in (b"op_time", b"key", b"key_size", b"op", b"op_count", b"size"):
                if name not in header:
                    raise TraceError(f"{path}: line 1: the header has no column {name.decode()!r}")
            time, key, operation, count, size, key_size = (
                header.index(name)
                for name in (b"op_time", b"key", b"op", b"op_count", b"size", b"key_size")
            )
            lines = [b"", *lines[1:]]
        times, keys, sizes = [], [], []
        for place, line in enumerate(lines):
            if not line.strip():
                continue
            fields = line.split(b",")
            try:
                repeats = int(fields[count])
                if len(fields) < len(header):
                    raise ValueError(f"{len(fields)} columns where the header has {len(header)}")
                if repeats < 0:
                    raise ValueError(f"op_count {repeats} is negative")
                at = _time(fields[time])
                text = _filled(fields[key])
                size_bytes = _size(fields[size]) + _size(fields[key_size])
            except (ValueError, IndexError) as error:
                raise _bad_line(path, number + place, line, error) from error
            if fields[operation] in READS:
                times += [at] * repeats
                keys += [text] * repeats
                sizes += [size_bytes] * repeats
        if keys:
            yield _chunk(times, keys, sizes, texts)


def _time(text: bytes) -> float:
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(f"the time {seconds} is not finite")
    return seconds


def _filled(text: bytes) -> bytes:
    text = text.strip()
    if not text:
        raise ValueError("the key is empty")
    return text


def _size(text: bytes) -> int:
    size = int(text)
    if not 0 <= size < 1 << 32:
        raise ValueError(f"the size {size} is not within 0 and 2^32")
    return size


def _bad_line(path: Path, number: int, line: bytes, error: Exception) -> TraceError:
    why = "too few columns" if isinstance(error, IndexError) else error
    return TraceError(f"{path}: line {number}: {line[:80]!r} is no request: {why}")


def _chunk(times: list[float], keys: list[bytes], sizes: list[int], texts: bool) -> TraceChunk:
    return TraceChunk(
        np.array(times, dtype=np.float64),
        np.fromiter(map(identity, keys), dtype=np.uint64, count=len(keys)),
        np.array(sizes, dtype=np.uint32),
        keys if texts else None,
    )


def _records(
    path: Path, blocks: Iterator[bytes], kind: np.dtype[Any]
) -> Iterator[npt.NDArray[Any]]:
    """Whole binary records, a block at a time."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        whole = len(data) - len(data) % kind.itemsize
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data, kind, whole // kind.itemsize)
    if rest:
        raise TraceError(
            f"{path}: ends with {len(rest)} bytes of a record that has {kind.itemsize}"
        )


def _decimal(keys: npt.NDArray[Any]) -> list[bytes]:
    return [b"%d" % key for key in keys.tolist()]


def _read_cache2k(path: Path, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    for records in _records(path, blocks, np.dtype(">i4")):
        yield TraceChunk(
            np.zeros(len(records)),
            records.view(">u4").astype(np.uint64),
            np.ones(len(records), dtype=np.uint32),
            _decimal(records) if texts else None,
        )


def _read_oracle_general(path: Path, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    for records in _records(path, blocks, ORACLE_GENERAL_RECORD):
        yield TraceChunk(
            records["time"].astype(np.float64),
            records["key"],
            records["size"],
            _decimal(records["key"]) if texts else None,
        )
