"""Traces of lines, as chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sidecar.kernel.library import library
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.lines import (
    Columns,
    Lines,
    identity,
    parse_line,
    parse_requests,
    read_columns,
    refused,
)


def read_lines(path: Path, blocks: Iterator[bytes], kind: str, texts: bool) -> Iterator[TraceChunk]:
    """Requests of a ``csv`` or ``cachelib`` trace. Raises TraceError."""
    columns, pieces = read_columns(path, blocks, kind)
    compiled = library()
    if texts or compiled is None:
        for piece in pieces:
            chunk = _chunk(path, columns, piece, texts)
            if len(chunk):
                yield chunk
        return
    for parsed in parse_requests(compiled, path, columns, pieces):
        yield TraceChunk(
            np.array(parsed.times_seconds[: parsed.requests], dtype=np.float64),
            np.array(parsed.keys[: parsed.requests], dtype=np.uint64),
            np.array(parsed.sizes_bytes[: parsed.requests], dtype=np.uint32),
        )


def _chunk(path: Path, columns: Columns, piece: Lines, texts: bool) -> TraceChunk:
    times: list[float] = []
    keys: list[bytes] = []
    sizes: list[int] = []
    repeats: list[int] = []
    for number, line in enumerate(piece.text.split(b"\n"), piece.number):
        if not line.strip():
            continue
        try:
            time, key, size, count = parse_line(line, columns)
        except ValueError as error:
            raise refused(path, number, line, error) from error
        times.append(time)
        keys.append(key)
        sizes.append(size)
        repeats.append(count)
    return TraceChunk(
        np.repeat(np.array(times, dtype=np.float64), repeats),
        np.repeat(np.fromiter(map(identity, keys), np.uint64, len(keys)), repeats),
        np.repeat(np.array(sizes, dtype=np.uint32), repeats),
        [key for key, count in zip(keys, repeats, strict=True) for _ in range(count)]
        if texts
        else None,
    )
