"""Files of traces: their formats, and what is in them once it is decompressed.

Nothing here, or in ``lines``, needs numpy: `spreds mrc` would wait longer for it than for a trace
of millions of requests.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from ctypes import addressof, c_char
from pathlib import Path
from typing import BinaryIO, Protocol

FORMATS = ("csv", "cachelib", "cache2k", "oracle-general")
RECORD_BYTES = {"cache2k": 4, "oracle-general": 24}
"""Of the formats that are binary."""
COMPRESSIONS = (".zst", ".xz", ".gz")

BLOCK_BYTES = 1 << 20
# What is mapped at a time: whole pages and whole records, and few enough to see progress.
_WINDOW_BYTES = 48 << 20

Progress = Callable[[float], None]


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class TraceError(ValueError):
    """A trace cannot be read; the message names the file and, where there are lines, the line."""


def trace_format(path: Path, format: str | None, first: bytes) -> str:  # noqa: A002
    """One of ``FORMATS``: the one given, or what the name and the first bytes tell.

    Raises:
        TraceError: it is not one of them, or cannot be told.
    """
    known = ", ".join(FORMATS)
    if format:
        if format not in FORMATS:
            raise TraceError(f"{path}: format {format!r} is not one of {known}")
        return format
    name = path.name.lower()
    if ".trace" in name:
        return "cache2k"
    if "oraclegeneral" in name or name.split(".")[-1] == "bin":
        return "oracle-general"
    if ".csv" in name or ".txt" in name:
        return "cachelib" if first.startswith(b"op_time,") else "csv"
    raise TraceError(f"{path}: the name does not tell the format; give one of {known}")


def trace_blocks(path: Path, progress: Progress | None = None) -> Iterator[bytes]:
    """The decompressed contents, about a megabyte at a time; none is empty.

    Args:
        path: of the file.
        progress: called with the share of the file that has been read, in (0, 1].

    Raises:
        TraceError: it cannot be read, or its compressed data is damaged or cut off.
    """
    try:
        with path.open("rb") as file:
            total = max(path.stat().st_size, 1)
            for block in _decompressed(path, file):
                if progress:
                    progress(min(file.tell() / total, 1.0))
                yield block
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error


def _unreadable(path: Path, why: object) -> TraceError:
    return TraceError(f"{path}: cannot be read: {why}")


def _decompressed(path: Path, file: BinaryIO) -> Iterator[bytes]:
    if path.suffix == ".zst":
        yield from _zstandard_blocks(path, file)
    elif path.suffix == ".xz":
        yield from _xz_blocks(path, file)
    elif path.suffix == ".gz":
        yield from _gzip_blocks(path, file)
    else:
        yield from _blocks(file)


def _blocks(reader: _Reader) -> Iterator[bytes]:
    while block := reader.read(BLOCK_BYTES):
        yield block


def _xz_blocks(path: Path, file: BinaryIO) -> Iterator[bytes]:
    import lzma

    try:
        with lzma.open(file) as reader:
            yield from _blocks(reader)
    except (lzma.LZMAError, EOFError) as error:
        raise _unreadable(path, error) from error


def _gzip_blocks(path: Path, file: BinaryIO) -> Iterator[bytes]:
    import gzip
    import zlib

    try:
        with gzip.open(file) as reader:
            yield from _blocks(reader)
    except (zlib.error, EOFError) as error:
        raise _unreadable(path, error) from error


def _zstandard_blocks(path: Path, file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise TraceError(
            f"{path}: reading .zst needs the Python package 'zstandard' (pip install zstandard)"
        ) from error
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        while block := file.read(BLOCK_BYTES // 4):
            while block:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield from filter(None, (frame.decompress(block),))
                block = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise _unreadable(path, error) from error
    if not frame.eof:
        raise _unreadable(path, "the compressed data is cut off")


def trace_records(path: Path, blocks: Iterator[bytes], record_bytes: int) -> Iterator[bytes]:
    """Whole binary records, a block of them at a time. Raises TraceError if the last is cut off."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        whole = len(data) - len(data) % record_bytes
        rest = data[whole:]
        if whole:
            yield data[:whole]
    if rest:
        raise _cut_off(path, len(rest), record_bytes)


def mapped_records(
    path: Path, record_bytes: int, progress: Progress | None
) -> Iterator[tuple[int, int]]:
    """Address and number of whole records, a window of the file at a time, without a copy.

    An address holds until the next is asked for.

    Raises:
        TraceError: the file cannot be read, or its last record is cut off.
    """
    try:
        with path.open("rb") as file:
            total = path.stat().st_size
            if total % record_bytes:
                raise _cut_off(path, total % record_bytes, record_bytes)
            for start in range(0, total, _WINDOW_BYTES):
                length = min(_WINDOW_BYTES, total - start)
                # A private copy that nobody writes to: ctypes takes no read-only buffer.
                with mmap.mmap(
                    file.fileno(), length, access=mmap.ACCESS_COPY, offset=start
                ) as map_:
                    window = c_char.from_buffer(map_)
                    yield addressof(window), length // record_bytes
                    del window  # else the map could not be closed
                if progress:
                    progress((start + length) / total)
    except OSError as error:
        raise _unreadable(path, error.strerror) from error


def _cut_off(path: Path, rest_bytes: int, record_bytes: int) -> TraceError:
    return TraceError(f"{path}: ends with {rest_bytes} bytes of a record that has {record_bytes}")
