"""Reads ARC's traces of blocks: first block, how many, 0, number of the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import MAYBE, NO, YES
from sidecar.traces.lines import WholeLines, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.columns import Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

LACKS = ("time",)
BLOCK_BYTES = 512
MOST_BLOCKS = 1 << 16  # of one request
_LINE = re.compile(rb"(\d+)\s+(\d+)\s+0\s+(\d+)\s*")


def detect(beginning: Beginning) -> int:
    """Detect the format by its numbers, and by its name where they could be LRB's."""
    lines = [_LINE.fullmatch(line) for line in beginning.lines]
    if not lines or not all(lines):
        return NO
    return YES if beginning.is_named("lis") else MAYBE


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Read a trace's requests, one for each block. Raises TraceError."""
    return read_rows(WholeLines(path, blocks), _parse, options)


def _parse(line: bytes) -> Iterator[Row]:
    found = _LINE.fullmatch(line)
    if not found:
        raise ValueError("ARC has a first block, how many, 0, and the request's number")
    first, count = int(found[1]), int(found[2])
    if not 0 < count <= MOST_BLOCKS:
        raise ValueError(f"{count} blocks are not between 1 and {MOST_BLOCKS}")
    for block in range(first, first + count):
        yield 0.0, b"%d" % block, BLOCK_BYTES, 1
