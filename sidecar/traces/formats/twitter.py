"""Reads Twitter's cache traces: time, key, key size, value size, client, operation, TTL; no
header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.traces.beginning import NO, YES
from sidecar.traces.columns import Columns
from sidecar.traces.lines import WholeLines, read_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

UNIT_IS_KNOWN = True
_LINE = re.compile(rb"\d+,[^,]+,\d+,\d+,\d+,[a-z_]+,\d+")


def detect(beginning: Beginning) -> int:
    """Detect the format by the columns of its first line."""
    return YES if beginning.lines and _LINE.fullmatch(beginning.lines[0]) else NO


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Read a trace's requests. Raises TraceError."""
    columns = Columns(7, 0, 1, 3, key_size=2, operation=5, most=7, quoted=False)
    return read_columns(WholeLines(path, blocks), columns, options)
