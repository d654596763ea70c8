"""Reads traces of block devices: each block of 4 KiB that a request touches is a request for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import NO, UNNAMED, YES
from sidecar.traces.lines import WholeLines, read_rows
from sidecar.traces.table_header import may_be_header, rises

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.columns import Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

BLOCK_BYTES = 4096
MOST_BLOCKS = 1 << 16  # of one request
SECTOR_BYTES = 512


def touched(time: float, volume: bytes, offset_bytes: int, size_bytes: int) -> Iterator[Row]:
    """Yield a row for each block, of which one is touched at least. Raises ValueError."""
    first = offset_bytes // BLOCK_BYTES
    end = max(-(-(offset_bytes + size_bytes) // BLOCK_BYTES), first + 1)
    if end - first > MOST_BLOCKS:
        raise ValueError(f"it touches {end - first} blocks, more than {MOST_BLOCKS}")
    for block in range(first, end):
        yield time, b"%s:%d" % (volume, block), BLOCK_BYTES, 1


class BlockFormat:
    """Describes a format of text.

    Args:
        name: of the format.
        sure: what a line of it has, and hardly one of something else; without it, or where that is
            not so, the file's name must have the format's in it.
        line: with the groups ``time``, ``volume``, ``operation``, ``offset`` and ``size``.
        ticks_per_second, offset_bytes, size_bytes: units of the columns.
        reads: spellings of the operation that count, beside the usual ones.
    """

    def __init__(
        self,
        name: str,
        line: bytes,
        *,
        sure: bytes = b"",
        ticks_per_second: float = 1.0,
        offset_bytes: int = 1,
        size_bytes: int = 1,
        reads: Sequence[bytes] = (),
    ) -> None:
        self._line = re.compile(line)
        self._name, self._sure = name, sure and re.compile(sure)
        self._ticks_per_second = ticks_per_second
        self._offset_bytes, self._size_bytes = offset_bytes, size_bytes
        self._reads = reads

    def detect(self, beginning: Beginning) -> int:
        """Detect the format by the columns of its first lines, of which one may be a header."""
        lines = beginning.lines
        if len(lines) > 1 and self._is_header(lines[0]):
            lines = lines[1:]
        if not lines or not all(map(self._line.fullmatch, lines[:1])):
            return NO
        if self._name in beginning.name:
            return YES
        found = filter(None, map(self._line.fullmatch, lines))
        is_sure = self._sure and self._sure.search(lines[0])
        return YES if is_sure and rises([line["time"] for line in found]) else UNNAMED

    def _is_header(self, line: bytes) -> bool:
        return may_be_header(line) and not self._line.fullmatch(line)

    def read(
        self, path: TracePath, blocks: Iterator[bytes], options: ReadOptions
    ) -> Iterator[ParsedRequests]:
        """Yield the blocks of its reads. Raises TraceError."""

        def parse(line: bytes) -> Iterator[Row]:
            found = self._line.fullmatch(line.strip())
            if not found:
                raise ValueError("it has not the columns of the first lines")
            if options.operations.is_read(found["operation"], self._reads):
                yield from touched(
                    float(found["time"]) / self._ticks_per_second * options.ticks_per_second,
                    found["volume"],
                    int(found["offset"]) * self._offset_bytes,
                    int(found["size"]) * self._size_bytes,
                )

        lines = WholeLines(path, blocks)
        if self._is_header(lines.header().strip()):
            lines.skip_header()
        return read_rows(lines, parse, options)
