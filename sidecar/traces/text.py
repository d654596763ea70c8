"""Traces of lines, as chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sidecar.kernel.library import library
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.lines import (
    Columns,
    WholeLines,
    identity,
    parse_line,
    parse_requests,
    read_columns,
    refused,
)

if TYPE_CHECKING:
    from sidecar.traces.file import TracePath


def read_lines(
    path: TracePath,
    blocks: Iterator[bytes],
    kind: str,
    texts: bool,
    tell_others: Callable[[int], None] | None = None,
    may_lack: Sequence[str] = (),
) -> Iterator[TraceChunk]:
    """Requests of a ``csv`` or ``cachelib`` trace; more as of ``read_trace``. Raises TraceError."""
    lines = WholeLines(path, blocks)
    columns = read_columns(path, lines, kind, may_lack)
    compiled = library()
    if texts or compiled is None:
        for piece in lines:
            chunk = _chunk(path, columns, lines.number, piece, texts)
            lines.number += piece.count(b"\n")
            if len(chunk):
                yield chunk
    else:
        for parsed in parse_requests(compiled, path, columns, lines):
            yield TraceChunk(
                np.array(parsed.times_seconds, np.float64)[: parsed.requests],
                np.array(parsed.keys, np.uint64)[: parsed.requests],
                np.array(parsed.sizes_bytes, np.uint32)[: parsed.requests],
            )
    if tell_others and columns.others:
        tell_others(columns.others)


def _chunk(path: TracePath, columns: Columns, first: int, piece: bytes, texts: bool) -> TraceChunk:
    times: list[float] = []
    keys: list[bytes] = []
    sizes: list[int] = []
    repeats: list[int] = []
    for number, line in enumerate(piece.split(b"\n"), first):
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
