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
import lzma
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sidecar.traces.binary import read_cache2k, read_oracle_general
from sidecar.traces.chunk import TraceChunk, TraceError, identity
from sidecar.traces.text import read_cachelib, read_csv

__all__ = ["FORMATS", "TraceChunk", "TraceError", "identity", "load_trace", "read_trace"]

FORMATS = ("csv", "cachelib", "cache2k", "oracle-general")
CHUNK_BYTES = 1 << 22

Progress = Callable[[float], None]


def read_trace(
    path: Path,
    format: str | None = None,  # noqa: A002
    texts: bool = False,
    progress: Progress | None = None,
) -> Iterator[TraceChunk]:
    """The requests of a file, in order, a few megabytes at a time; no chunk is empty.

    Args:
        path: of the file.
        format: one of ``FORMATS``, or ``None`` to find out.
        texts: also give each key's text.
        progress: called with the share of the file that has been read, in (0, 1].

    Raises:
        TraceError: the file is missing, of no known format, or has a line that does not parse.
    """
    blocks = _blocks(path, progress)
    first = next(blocks, b"")
    if not first:
        return
    blocks = chain((first,), blocks)
    kind = format or _guess_format(path, first)
    if kind == "csv":
        yield from read_csv(path, blocks, texts)
    elif kind == "cachelib":
        yield from read_cachelib(path, blocks, texts)
    elif kind == "cache2k":
        yield from read_cache2k(path, blocks, texts)
    elif kind == "oracle-general":
        yield from read_oracle_general(path, blocks, texts)
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


def _blocks(path: Path, progress: Progress | None) -> Iterator[bytes]:
    """The decompressed contents; a file that is cut off is an error, not a short trace."""
    try:
        total = max(path.stat().st_size, 1)
        with path.open("rb") as file:
            for block in _decompressed(path, file):
                if progress:
                    progress(file.tell() / total)
                yield block
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TraceError(f"{path}: cannot be read: {why}") from error


def _decompressed(path: Path, file: BinaryIO) -> Iterator[bytes]:
    if path.suffix == ".zst":
        yield from _zstandard_blocks(path, file)
        return
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix)
    reader = opener(file) if opener else file
    while block := reader.read(CHUNK_BYTES):
        yield block


def _zstandard_blocks(path: Path, file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise TraceError(
            f"{path}: reading .zst needs the Python package 'zstandard' (pip install zstandard)"
        ) from error
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
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
