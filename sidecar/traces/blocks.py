"""Traces of block devices: each block of 4 KiB that a request touches is a request for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import NO, YES
from sidecar.traces.lines import WholeLines, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.columns import Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.reading import Reading

BLOCK_BYTES = 4096
MOST_BLOCKS = 1 << 16  # of one request
SECTOR_BYTES = 512


def touched(time: float, volume: bytes, offset_bytes: int, size_bytes: int) -> Iterator[Row]:
    """A row for each block, of which one is touched at least. Raises ValueError."""
    first = offset_bytes // BLOCK_BYTES
    end = max(-(-(offset_bytes + size_bytes) // BLOCK_BYTES), first + 1)
    if end - first > MOST_BLOCKS:
        raise ValueError(f"it touches {end - first} blocks, more than {MOST_BLOCKS}")
    for block in range(first, end):
        yield time, b"%s:%d" % (volume, block), BLOCK_BYTES, 1


class BlockFormat:
    """A format of text.

    Args:
        line: with the groups ``time``, ``volume``, ``operation``, ``offset`` and ``size``.
        ticks_per_second, offset_bytes, size_bytes: units of the columns.
        operations: what their spellings mean, where that is not plain.
    """

    def __init__(
        self,
        line: bytes,
        *,
        ticks_per_second: float = 1.0,
        offset_bytes: int = 1,
        size_bytes: int = 1,
        operations: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self._line = re.compile(line)
        self._ticks_per_second = ticks_per_second
        self._offset_bytes, self._size_bytes = offset_bytes, size_bytes
        self._operations = operations or {}

    def detect(self, beginning: Beginning) -> int:
        """By the columns of its first line."""
        return YES if beginning.lines and self._line.fullmatch(beginning.lines[0]) else NO

    def read(
        self, path: TracePath, blocks: Iterator[bytes], reading: Reading
    ) -> Iterator[ParsedRequests]:
        """The blocks of its reads. Raises TraceError."""

        def parse(line: bytes) -> Iterator[Row]:
            found = self._line.fullmatch(line.strip())
            if not found:
                raise ValueError("it has not the columns of the first lines")
            operation = found["operation"]
            if reading.operations.is_read(self._operations.get(operation, operation)):
                yield from touched(
                    float(found["time"]) / self._ticks_per_second * reading.ticks_per_second,
                    found["volume"],
                    int(found["offset"]) * self._offset_bytes,
                    int(found["size"]) * self._size_bytes,
                )

        return read_rows(WholeLines(path, blocks), parse, reading)
