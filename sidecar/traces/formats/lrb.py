"""Reads LRB's traces: time, key, size and perhaps more numbers, parted by one blank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import MAYBE, NO, YES
from sidecar.traces.columns import Columns
from sidecar.traces.formats import arc
from sidecar.traces.lines import WholeLines, read_columns
from sidecar.traces.table_header import check_without_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

_LINE = re.compile(rb"\d+ \d+ \d+( -?[\d.]+)*")


def detect(beginning: Beginning) -> int:
    """Detect the format by its numbers, where neither they nor the name can be ARC's."""
    if not beginning.lines or not all(map(_LINE.fullmatch, beginning.lines)):
        return NO
    if beginning.is_named("lis"):
        return NO
    return MAYBE if arc.detect(beginning) else YES


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Read a trace's requests. Raises TraceError."""
    columns, lines = Columns(3, 0, 1, 2, delimiter=b" ", quoted=False), WholeLines(path, blocks)
    check_without_header(path, lines.first_lines(), columns)
    return read_columns(lines, columns, options)
