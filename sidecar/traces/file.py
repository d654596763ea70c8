"""Reads files of traces, and what is in them once it is decompressed.

Nothing here, or in what reads a plain CSV, needs numpy, ``re``, ``typing`` or ``pathlib``: `spreds
mrc` would wait longer for any of them than for a trace of half a million requests.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO, Protocol

    from sidecar.traces.read_options import Progress

    TracePath = str | os.PathLike[str]

    class _Reader(Protocol):
        def read(self, size: int, /) -> bytes: ...


# Instead of a path.
STDIN = "-"
# What such files begin with.
COMPRESSED = {
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\xfd7zXZ\0": ".xz",
    b"\x1f\x8b\x08": ".gz",
    b"BZh": ".bz2",
}

# A multiple of the pages and of all records, and little enough to stay in a core's cache.
BLOCK_BYTES = 3 << 17
# Four times what xz -9 needs.
MOST_XZ_BYTES = 256 << 20


class TraceError(ValueError):
    """A trace cannot be read; the message names the file and, where there are lines, the line."""


def trace_blocks(path: TracePath, progress: Progress | None = None) -> Iterator[bytes]:
    """Yield the decompressed contents, about half a megabyte at a time; none is empty.

    Args:
        path: of the file; standard input, whose first bytes tell how it is compressed, if it is
            ``STDIN``.
        progress: called with the share of the file that has been read, in (0, 1]; not for
            standard input, which nobody knows the end of.

    Raises:
        TraceError: it cannot be read, or its compressed data is damaged or cut off.
    """
    try:
        if path == STDIN:
            stdin: Any = sys.stdin.buffer
            first = stdin.peek(BLOCK_BYTES)
            suffixes = [COMPRESSED[magic] for magic in COMPRESSED if first.startswith(magic)]
            yield from _decompressed(path, stdin, *suffixes)
            return
        with open(path, "rb", buffering=0) as file:
            total = max(os.fstat(file.fileno()).st_size, 1)
            for block in _decompressed(path, file, os.path.splitext(path)[1]):
                if progress:
                    progress(min(file.tell() / total, 1.0))
                yield block
            if progress:
                progress(1.0)
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error


def _unreadable(path: TracePath, why: object) -> TraceError:
    return TraceError(f"{path}: cannot be read: {why}")


def _decompressed(path: TracePath, file: BinaryIO, suffix: str = "") -> Iterator[bytes]:
    if suffix == ".zst":
        yield from _zstandard_blocks(path, file)
    elif suffix == ".xz":
        yield from _xz_blocks(path, file)
    elif suffix == ".gz":
        yield from _gzip_blocks(path, file)
    elif suffix == ".bz2":
        yield from _bzip2_blocks(path, file)
    else:
        yield from _blocks(file)


def _blocks(reader: _Reader) -> Iterator[bytes]:
    while block := reader.read(BLOCK_BYTES):
        yield block


def _xz_blocks(path: TracePath, file: BinaryIO) -> Iterator[bytes]:
    import lzma

    try:
        yield from _of_streams(file, lambda: lzma.LZMADecompressor(memlimit=MOST_XZ_BYTES), b"\0")
    except (lzma.LZMAError, EOFError) as error:
        raise _unreadable(path, error) from error


def _of_streams(file: BinaryIO, begin: Callable[[], Any], between: bytes = b"") -> Iterator[bytes]:
    """Yield the contents of streams that follow each other, perhaps with such bytes between them.
    The libraries' own readers of files do worse: that of xz takes as much memory as a file asks
    for; that of bzip2 takes a damaged stream for the file's end."""
    data = file.read(BLOCK_BYTES)
    while data:
        stream = begin()
        while not stream.eof:
            if stream.needs_input and not data:
                data = file.read(BLOCK_BYTES)
                if not data:
                    raise EOFError("it ends within a stream")
            block, data = stream.decompress(data, BLOCK_BYTES), b""
            if block:
                yield block
        data = stream.unused_data.lstrip(between) or file.read(BLOCK_BYTES).lstrip(between)


def _gzip_blocks(path: TracePath, file: BinaryIO) -> Iterator[bytes]:
    import gzip
    import zlib

    try:
        with gzip.open(file) as reader:
            yield from _blocks(reader)
    except (zlib.error, EOFError) as error:
        raise _unreadable(path, error) from error


def _bzip2_blocks(path: TracePath, file: BinaryIO) -> Iterator[bytes]:
    import bz2

    try:
        yield from _of_streams(file, bz2.BZ2Decompressor)
    except (OSError, EOFError) as error:
        raise _unreadable(path, error) from error


def _zstandard_blocks(path: TracePath, file: BinaryIO) -> Iterator[bytes]:
    try:
        from backports import zstd
    except ImportError as error:
        raise TraceError(
            f"{path}: reading .zst needs the Python package 'backports.zstd' (pip install "
            "backports.zstd, or spreds with its extra 'mrc')"
        ) from error
    try:
        with zstd.open(file) as reader:
            yield from _blocks(reader)
    except (zstd.ZstdError, EOFError) as error:
        raise _unreadable(path, error) from error


# No records end so: 16 or more of each format, with time, key and size 0.
_MOST_ZEROS = 1024


def trace_records(path: TracePath, blocks: Iterator[bytes], record_bytes: int) -> Iterator[bytes]:
    """Yield whole binary records, a block of them at a time. Raises TraceError if the last is cut
    off."""
    rest = last = b""
    for block in blocks:
        last = block
        data = rest + block if rest else block
        whole = len(data) - len(data) % record_bytes
        rest = data[whole:]
        if whole:
            yield data if whole == len(data) else data[:whole]
    if last.endswith(b"\0" * _MOST_ZEROS):
        raise TraceError(
            f"{path}: ends with {_MOST_ZEROS} zeros or more, as a download that broke off does: "
            "cut them away"
        )
    if rest:
        raise TraceError(f"{path}: ends with {len(rest)} bytes of a record that has {record_bytes}")
