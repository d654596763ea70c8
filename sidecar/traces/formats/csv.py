"""Reads ``time,key,size`` in seconds and bytes, with or without a header.

A header may name the columns as published traces do, and in any order; with an ``op``, only reads
count; with an ``op_count``, as many times; a ``key_size`` is added to a size that is not 0. Columns
are parted by commas, tabs, semicolons or blanks.
"""

from __future__ import annotations

from sidecar.traces.beginning import MAYBE, NO, YES
from sidecar.traces.columns import DELIMITERS, split
from sidecar.traces.file import TraceError
from sidecar.traces.lines import WholeLines, read_columns
from sidecar.traces.table_header import (
    check_unused,
    check_without_header,
    header_names,
    leave_unread,
    may_be_header,
    names_key,
    read_header,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions


def detect(beginning: Beginning) -> int:
    """Detect the format by its header; without one, by a time, a key and a size in each line."""
    if not beginning.lines:
        return NO
    first = beginning.lines[0]
    if may_be_header(first) and names_key(header_names(first)[0]):
        return YES
    for delimiter in DELIMITERS[:3]:
        if all(_is_request(line, delimiter) for line in beginning.lines):
            return YES
    return MAYBE if beginning.is_named("csv", "tsv") else NO


def _is_request(line: bytes, delimiter: bytes) -> bool:
    try:
        time, _, size = split(line, delimiter)
        return float(time) == float(time) and size.strip().isdigit()
    except ValueError:
        return False


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Read a trace's requests. Raises TraceError."""
    lines = WholeLines(path, blocks)
    try:
        header = lines.header()
        columns, has_header = read_header(path, header, options.may_lack)
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"{path}: line 1: {error}") from error
    if has_header:
        check_unused(path, first := lines.first_lines(), columns)
        leave_unread(first, columns, options.may_lack)
        lines.skip_header()
        names = header_names(header)[0]
        options.columns = columns.named(names, options.may_lack)
        known = columns.named(names, ()).values()  # also what nobody needs just now
        options.unused = [name for name in names if name not in known]
    else:
        check_without_header(path, lines.first_lines(), columns)
    return read_columns(lines, columns, options)
