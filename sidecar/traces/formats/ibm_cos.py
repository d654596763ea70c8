"""Reads traces of IBM's object store: milliseconds, operation, key, and perhaps size and range."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import NO, YES
from sidecar.traces.columns import MAX_SIZE_BYTES
from sidecar.traces.lines import WholeLines, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.columns import Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

UNIT_IS_KNOWN = True
_LINE = re.compile(rb"(\d+) (REST\.[A-Z.]+) (\S+)(?: (\d+))?(?: \d+ \d+)?\s*")
_READS = (b"rest.get.object",)


def detect(beginning: Beginning) -> int:
    """Detect the format by the operation of its first line."""
    return YES if beginning.lines and _LINE.fullmatch(beginning.lines[0]) else NO


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Yield a trace's requests: one for a part of an object is one for the object. Raises
    TraceError."""

    def parse(line: bytes) -> Iterator[Row]:
        found = _LINE.fullmatch(line)
        if not found:
            raise ValueError("it has a time, an operation, a key, and perhaps size and range")
        size = int(found[4] or 0)
        if size > MAX_SIZE_BYTES and options.in_bytes:
            raise ValueError(f"the size {size} is more than {MAX_SIZE_BYTES}")
        if options.operations.is_read(found[2], _READS):
            time = int(found[1]) / 1000 * options.ticks_per_second
            yield time, found[3], min(size, MAX_SIZE_BYTES), 1

    return read_rows(WholeLines(path, blocks), parse, options)
