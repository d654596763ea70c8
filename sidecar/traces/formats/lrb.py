"""LRB's traces: time, key, size and perhaps more numbers, parted by one blank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import MAYBE, NO, YES
from sidecar.traces.columns import Columns
from sidecar.traces.file import TraceError
from sidecar.traces.formats import arc
from sidecar.traces.lines import WholeLines, read_columns
from sidecar.traces.table_header import check_without_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.reading import Reading

_ENOUGH_LINES, _COLUMNS_OF_BLOCKS, _SIZES_A_KEY = 16, 5, 2
_LINE = re.compile(rb"\d+ \d+ \d+( -?[\d.]+)*")


def detect(beginning: Beginning) -> int:
    """By its numbers, where neither they nor the name can be ARC's."""
    if not beginning.lines or not all(map(_LINE.fullmatch, beginning.lines)):
        return NO
    if beginning.is_named("lis"):
        return NO
    return MAYBE if arc.detect(beginning) else YES


def read(path: TracePath, blocks: Iterator[bytes], reading: Reading) -> Iterator[ParsedRequests]:
    """Its requests. Raises TraceError."""
    columns, lines = Columns(3, 0, 1, 2, delimiter=b" ", quoted=False), WholeLines(path, blocks)
    check_without_header(path, lines.first_lines(), columns)
    _check_keys(path, lines.first_lines())
    return read_columns(lines, columns, reading)


def _check_keys(path: TracePath, lines: Sequence[bytes]) -> None:
    """Raises TraceError where the second of five columns or more is a device: an object has one
    size, or few in a row."""
    rows = [line.split() for line in lines if line.strip()]
    if len(rows) < _ENOUGH_LINES or any(len(row) < _COLUMNS_OF_BLOCKS for row in rows):
        return
    keys, sizes = ({row[place] for row in rows} for place in (1, 2))
    if len(sizes) > _SIZES_A_KEY * len(keys):
        raise TraceError(
            f"{path}: its second column has fewer keys than the third has sizes: write it as CSV "
            "with a header (time, key, size)"
        )
