"""Traces from files: who asked for which key, when, and how large the object was.

Formats (the file's name and first line tell which; ``format`` overrides):

* ``csv``: ``time,key,size`` in seconds and bytes, with or without a header line; a header may name
  the columns as libCacheSim's examples do, and in any order; where it has an ``op``, only reads
  (get, gets, get_lease) are kept;
* ``cachelib``: CacheLib's key-value traces. Only reads are kept, ``op_count``
  times each; the size is that of key and value;
* ``cache2k``: raw big-endian int32 keys, without times (0) or sizes (1);
* ``oracle-general``: libCacheSim's binary records of 24 bytes: u32 time, u64 key, u32 size, i64
  position of the next request, little-endian.

Each may be compressed (``.zst``, ``.xz``, ``.gz``); of standard input (``-``), the first bytes tell
that, and nothing but the format what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sidecar.traces.binary import read_cache2k, read_oracle_general
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.file import FORMATS, TraceError, open_trace
from sidecar.traces.lines import identity
from sidecar.traces.text import read_lines

if TYPE_CHECKING:
    from sidecar.traces.file import Progress, TracePath

__all__ = ["FORMATS", "TraceChunk", "TraceError", "identity", "load_trace", "read_trace"]


def read_trace(
    path: TracePath,
    format: str | None = None,  # noqa: A002
    texts: bool = False,
    progress: Progress | None = None,
    in_bytes: bool = False,
    timed: bool = False,
    tell_others: Callable[[int], None] | None = None,
    may_lack: Sequence[str] = (),
) -> Iterator[TraceChunk]:
    """The requests of a file, in order, about a megabyte at a time; no chunk is empty.

    Args:
        path: of the file.
        format: one of ``FORMATS``, or ``None`` to find out.
        texts: also give each key's text.
        progress: called with the share of the file that has been read, in (0, 1].
        in_bytes, timed: sizes, times are needed.
        tell_others: called at the end with how many lines were no reads, if some were.
        may_lack: columns that the header of a CSV need not name, as of ``lines.read_columns``.

    Raises:
        TraceError: the file is missing, of no known format, lacks what is needed, or has a line
            that does not parse.
    """
    kind, blocks = open_trace(path, format, progress, in_bytes=in_bytes, timed=timed)
    if not kind:
        return
    if kind == "cache2k":
        yield from read_cache2k(path, blocks, texts)
    elif kind == "oracle-general":
        yield from read_oracle_general(path, blocks, texts)
    else:
        yield from read_lines(path, blocks, kind, texts, tell_others, may_lack)


def load_trace(
    path: TracePath,
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
