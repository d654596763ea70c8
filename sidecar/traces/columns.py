"""Lines of columns: what each says, and the header that names them."""

from __future__ import annotations

from ctypes import c_int32

from sidecar.traces.file import TraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from ctypes import Array

    from sidecar.traces.file import TracePath
    from sidecar.traces.operations import Operations

    Row = tuple[float, bytes, int, int]  # time, key, size, and how many requests it stands for

COLUMN_NAMES = {
    "time": ("time", "timestamp", "clock_time", "op_time", "relative_unix"),
    "key": (
        *("key", "obj_id", "object", "obj", "id", "lbn", "cachekey"),
        *("hashed_path_query", "hashed_host_path_query"),
    ),
    "size": ("size", "obj_size", "object_size", "len", "objectsize", "response_size"),
}
"""Of a table's header; the first that is there counts."""
OPERATION, KEY_SIZE, REPEATS = "op", "key_size", "op_count"
DELIMITERS = (b",", b"\t", b";", b" ")

MAX_REPEATS = 1 << 24
MAX_SIZE_BYTES = (1 << 32) - 1


class Columns:
    """Places of the columns, from 0; -1 for one that the format does not have.

    Attributes:
        least: a line has so many columns, or more.
        time, key, size: the size is in bytes; where there is no column, time and size are 0.
        key_size: added to the size.
        operation: only reads count.
        repeats: how many requests the line stands for.
        most: a line has no more columns; -1: it may.
        delimiter: one byte.
        quoted: a field may stand in quotes, by the rules of CSV.
        any_size: nobody counts in bytes, so a size that is too large is as good as the largest.
        ticks_per_second: the unit of times that are numbers.
    """

    def __init__(
        self,
        least: int,
        time: int,
        key: int,
        size: int,
        key_size: int = -1,
        operation: int = -1,
        repeats: int = -1,
        *,
        most: int = -1,
        delimiter: bytes = b",",
        quoted: bool = True,
    ) -> None:
        self.least, self.time, self.key, self.size = least, time, key, size
        self.key_size, self.operation, self.repeats = key_size, operation, repeats
        self.most, self.delimiter, self.quoted = most, delimiter, quoted
        self.any_size, self.ticks_per_second = False, 1.0

    def for_c(self) -> Array[c_int32]:
        """As ``lines.c`` has them."""
        places = (self.time, self.key, self.size, self.key_size, self.operation, self.repeats)
        return (c_int32 * 9)(self.least, *places, self.most, self.delimiter[0])


def parse_line(line: bytes, columns: Columns, operations: Operations) -> Row:
    """Time, key, size and how many requests of one line. Raises ValueError."""
    fields = split(line, columns.delimiter, quoted=columns.quoted)
    if len(fields) < columns.least:
        raise ValueError(f"too few columns, {len(fields)} instead of {columns.least}")
    if 0 <= columns.most < len(fields):
        raise ValueError(f"too many columns, {len(fields)} instead of {columns.most}")
    time = _time(fields[columns.time], columns) if columns.time >= 0 else 0.0
    key = fields[columns.key].strip()
    if not key:
        raise ValueError("the key is empty")
    size, repeats = 0, 1
    for name, place in (("size", columns.size), ("key_size", columns.key_size)):
        if place >= 0:
            size = _with_size(size, fields[place], name, any_size=columns.any_size)
    if columns.repeats >= 0:
        repeats = _whole(fields[columns.repeats], "op_count")
        if not 0 <= repeats < MAX_REPEATS:
            raise ValueError(f"the op_count {repeats} is not between 0 and {MAX_REPEATS - 1}")
    if columns.operation >= 0 and not operations.is_read(fields[columns.operation].strip()):
        repeats = 0
    return time, key, size, repeats


def split(line: bytes, delimiter: bytes, *, quoted: bool = True) -> list[bytes]:
    """The fields of a line. Raises ValueError if its quotes are not those of CSV."""
    if not quoted or b'"' not in line:
        return line.split(delimiter)
    import csv

    text = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
    try:
        (fields,) = csv.reader([text], delimiter=delimiter.decode(), strict=True)
    except csv.Error as error:
        raise ValueError(f"its quotes are not those of CSV, within one line: {error}") from error
    return [field.encode("utf-8", "surrogateescape") for field in fields]


def _time(text: bytes, columns: Columns) -> float:
    try:
        time = float(text)
    except ValueError:
        from datetime import UTC, datetime

        if not text.isascii() or b":" not in text:
            raise
        date = datetime.fromisoformat(text.decode().strip())
        return date.replace(tzinfo=date.tzinfo or UTC).timestamp() * columns.ticks_per_second
    if not abs(time) < float("inf"):
        raise ValueError(f"the time {time} is not finite")
    return time


def _whole(text: bytes, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        shown = text.decode(errors="replace").strip()
        raise ValueError(f"the {name} {shown!r} is not a whole number") from None


def _with_size(size: int, text: bytes, name: str, *, any_size: bool) -> int:
    more = _whole(text, name)
    most = MAX_SIZE_BYTES - size
    if more > most and any_size:
        return MAX_SIZE_BYTES
    if not 0 <= more <= most:
        raise ValueError(
            f"the {name} {more} is not between 0 and {most}: for larger objects write sizes of "
            "1024 bytes, as by awk -F, -v OFS=, 'NR>1{$3=int(($3+1023)/1024)}1' where they are "
            "the third column, or do not count in bytes"
            if more > most
            else f"the {name} {more} is negative"
        )
    return size + more


def read_header(
    path: TracePath, header: bytes, may_lack: Sequence[str] = ()
) -> tuple[Columns, bool]:
    """What the columns are, and whether a header said so: without one there are three.

    Args:
        path: of the file.
        header: its first line.
        may_lack: those of ``COLUMN_NAMES`` that it need not name.

    Raises:
        TraceError: the header is missing or wrong.
    """
    if header.lstrip(b' "')[:1].isdigit():
        for delimiter in DELIMITERS:
            if len(split(header, delimiter)) == 3:
                return Columns(3, 0, 1, 2, most=3, delimiter=delimiter), False
        raise TraceError(
            f"{path}: line 1: {shown(header)} has {header.count(b',') + 1} columns and no header "
            "is above it: without one they are time,key,size; it may name more and in any order, "
            f"and with the column {OPERATION} only reads count; --format tells another format"
        )
    names, delimiter = header_names(header)
    time, key, size = (
        _place(path, header, names, column, column in may_lack) for column in COLUMN_NAMES
    )
    key_size, operation, repeats = (
        names.index(name) if name in names else -1 for name in (KEY_SIZE, OPERATION, REPEATS)
    )
    if size < 0:
        key_size = -1
    count = len(names)
    places = (time, key, size, key_size, operation, repeats)
    return Columns(count, *places, most=count, delimiter=delimiter), True


def header_names(header: bytes) -> tuple[list[str], bytes]:
    """The names of the columns, in small letters, and what stands between them."""
    found = [(_names(header, delimiter), delimiter) for delimiter in DELIMITERS]
    for names, delimiter in found:
        if names_key(names):
            return names, delimiter
    return found[0]


def names_key(names: Sequence[str]) -> bool:
    """Whether one of the columns is the key."""
    return any(name in names for name in COLUMN_NAMES["key"])


def _names(header: bytes, delimiter: bytes) -> list[str]:
    try:
        fields = split(header, delimiter)
    except ValueError:
        return []
    return [name.strip(b'# \r"').decode("utf-8", "replace").lower() for name in fields]


def _place(path: TracePath, header: bytes, names: list[str], column: str, may_lack: bool) -> int:
    for name in COLUMN_NAMES[column]:
        if name in names:
            return names.index(name)
    if may_lack:
        return -1
    raise TraceError(
        f"{path}: line 1: the header {shown(header)} names no column for the {column} "
        f"(one of {', '.join(COLUMN_NAMES[column])})"
    )


def shown(line: bytes) -> str:
    """The beginning of a line, as messages show it."""
    return repr(line[:80].decode("utf-8", "replace"))
