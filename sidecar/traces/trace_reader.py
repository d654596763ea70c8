"""Reads traces from files: who asked for which key, when, and how large the object was.

The file's name and its first bytes tell the format together (``registry``); ``format`` overrides.
Each may be compressed (``.zst``, ``.xz``, ``.gz``, ``.bz2``). On standard input (``-``), the first
bytes tell that, and only ``format`` tells what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sidecar.traces.chunk import TraceChunk
from sidecar.traces.file import TraceError, trace_records
from sidecar.traces.lines import identity
from sidecar.traces.read_options import ReadOptions
from sidecar.traces.registry import FORMATS, format_named, open_trace

if TYPE_CHECKING:
    from sidecar.traces.file import TracePath

__all__ = ["FORMATS", "TraceChunk", "TraceError", "identity", "load_trace", "read_trace"]


def read_trace(
    path: TracePath,
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
) -> Iterator[TraceChunk]:
    """Yield the requests of a file, in order, about a megabyte at a time; no chunk is empty.

    Args:
        path: of the file.
        format: one of ``FORMATS``, or ``None`` to find out.
        options: what is wanted of it; ``None``: times and sizes, where they are.

    Raises:
        TraceError: the file is missing, of no known format, lacks what is needed, or has a line
            that does not parse.
    """
    options = options or ReadOptions()
    kind, blocks = open_trace(path, format, options)
    if not kind:
        return
    module = format_named(kind)
    if hasattr(module, "RECORD_BYTES"):
        for records in trace_records(path, blocks, module.RECORD_BYTES):
            times, keys, sizes = module.columns(records)
            texts = [b"%d" % key for key in keys.tolist()] if options.texts else None
            # A negative key stands for the number that has its bits.
            unsigned = keys.astype(f"u{keys.itemsize}").astype(np.uint64)
            yield TraceChunk(times / options.ticks_per_second, unsigned, sizes, texts)
        return
    for parsed in module.read(path, blocks, options):
        count = parsed.requests
        yield TraceChunk(
            np.frombuffer(parsed.times, np.float64, count) / options.ticks_per_second,
            np.frombuffer(parsed.keys, np.uint64, count).copy(),
            np.frombuffer(parsed.sizes_bytes, np.uint32, count).copy(),
            parsed.texts if options.texts else None,
        )


def load_trace(
    path: TracePath,
    format: str | None = None,  # noqa: A002
    texts: bool = False,
    limit: int | None = None,
    options: ReadOptions | None = None,
) -> TraceChunk:
    """Return the whole trace, or its first ``limit`` requests, as one chunk; ``options`` as of
    :func:`read_trace`.

    Raises:
        TraceError: as ``read_trace``, or the trace is empty.
    """
    chunks = []
    missing = limit
    for chunk in read_trace(path, format, options or ReadOptions(texts=texts)):
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
