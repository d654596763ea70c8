"""LRB's traces: time, key, size and perhaps more numbers, parted by one blank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import MAYBE, NO, YES
from sidecar.traces.columns import Columns
from sidecar.traces.formats import arc
from sidecar.traces.lines import WholeLines, read_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.reading import Reading

_LINE = re.compile(rb"\d+ \d+ \d+( -?[\d.]+)*")


def detect(beginning: Beginning) -> int:
    """By its numbers, where they cannot be ARC's, or by its name."""
    if not beginning.lines or not all(map(_LINE.fullmatch, beginning.lines)):
        return NO
    return YES if beginning.is_named("tr") or not arc.detect(beginning) else MAYBE


def read(path: TracePath, blocks: Iterator[bytes], reading: Reading) -> Iterator[ParsedRequests]:
    """Its requests. Raises TraceError."""
    columns = Columns(3, 0, 1, 2, delimiter=b" ", quoted=False)
    return read_columns(WholeLines(path, blocks), columns, reading)
