"""Reads a key a line, as LIRS has its traces, too."""

from __future__ import annotations

from sidecar.traces.beginning import MAYBE, NO
from sidecar.traces.columns import DELIMITERS, Columns
from sidecar.traces.lines import WholeLines, read_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

LACKS = ("size", "time")


def detect(beginning: Beginning) -> int:
    """Detect the format where the name is a text's, and there is nothing to part columns with."""
    if not beginning.is_named("txt", "keys", "trc", "lirs", "log") or not beginning.lines:
        return NO
    lines = (line.strip() for line in beginning.lines)
    return NO if any(mark in line for line in lines for mark in DELIMITERS) else MAYBE


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Read a trace's requests. Raises TraceError."""
    columns = Columns(1, -1, 0, -1, delimiter=b"\n", quoted=False)
    return read_columns(WholeLines(path, blocks), columns, options)
