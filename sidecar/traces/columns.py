"""Says what each column of a line means."""

from __future__ import annotations

from ctypes import c_int32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from ctypes import Array

    from sidecar.traces.operations import Operations

    Row = tuple[float, bytes, int, int]  # time, key, size, and how many requests it stands for

DELIMITERS = (b",", b"\t", b";", b" ")

MAX_REPEATS = 1 << 24
MAX_SIZE_BYTES = (1 << 32) - 1


class Columns:
    """Holds the places of the columns, from 0; -1 for one that the format does not have.

    Attributes:
        least: a line has so many columns, or more.
        time, key, size: the size is in bytes; where there is no column, time and size are 0.
        key_size: added to the size, but to none of 0: that is a miss, as some logs have it.
        operation: only reads count.
        repeats: how many requests the line stands for.
        most: a line has no more columns; -1: it may.
        delimiter: one byte.
        quoted: a field may stand in quotes, by the rules of CSV.
        has_header: the first line names them.
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
        self.any_size, self.ticks_per_second, self.has_header = False, 1.0, False

    def named(self, names: Sequence[str], unused: Sequence[str]) -> dict[str, str]:
        """Return the names of the columns that are taken, by what they say. ``unused``: those of
        ``time`` and ``size`` that are not."""
        places = {"key": self.key, "operation": self.operation, "op_count": self.repeats}
        if "size" not in unused:
            places |= {"size": self.size, "key_size": self.key_size}
        if "time" not in unused:
            places["time"] = self.time
        return {what: names[place] for what, place in places.items() if place >= 0}

    def for_c(self) -> Array[c_int32]:
        """Return the columns as ``lines.c`` has them."""
        places = (self.time, self.key, self.size, self.key_size, self.operation, self.repeats)
        return (c_int32 * 9)(self.least, *places, self.most, self.delimiter[0])


def parse_line(line: bytes, columns: Columns, operations: Operations) -> Row:
    """Return time, key, size and how many requests of one line. Raises ValueError."""
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
    if columns.size >= 0:
        size = _with_size(0, fields[columns.size], "size", columns)
    if columns.key_size >= 0:
        with_key = _with_size(size, fields[columns.key_size], "key_size", columns)
        size = with_key if size else 0
    if columns.repeats >= 0:
        repeats = _whole(fields[columns.repeats], "op_count")
        if not 0 <= repeats < MAX_REPEATS:
            raise ValueError(f"the op_count {repeats} is not between 0 and {MAX_REPEATS - 1}")
    if columns.operation >= 0:
        operation = fields[columns.operation].strip()
        repeats *= operations.is_read(operation, requests=repeats)
    return time, key, size, repeats


def split(line: bytes, delimiter: bytes, *, quoted: bool = True) -> list[bytes]:
    """Return the fields of a line. Raises ValueError if its quotes are not those of CSV."""
    if not quoted or b'"' not in line:
        return line.split(delimiter)
    import csv

    text = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
    try:
        (fields,) = csv.reader([text], delimiter=delimiter.decode(), strict=True)
    except csv.Error as error:
        raise ValueError(f"its quotes are not those of CSV, within one line: {error}") from error
    return [field.encode("utf-8", "surrogateescape") for field in fields]


def moment(text: bytes) -> float:
    """Return a number as it is, a date in seconds. Raises ValueError."""
    try:
        return float(text)
    except ValueError:
        from datetime import UTC, datetime

        if not text.isascii() or b":" not in text:
            raise
        date = datetime.fromisoformat(text.decode().strip())
        return date.replace(tzinfo=date.tzinfo or UTC).timestamp()


def _time(text: bytes, columns: Columns) -> float:
    try:
        time = moment(text)
    except ValueError:
        said = text.decode(errors="replace").strip()
        raise ValueError(f"the time {said!r} is neither a number nor a date") from None
    if not abs(time) < float("inf"):
        raise ValueError(f"the time {time} is not finite")
    return time * columns.ticks_per_second if b":" in text else time


def _whole(text: bytes, name: str) -> int:
    try:
        if b"_" in text:  # of Python's numbers alone
            raise ValueError
        return int(text)
    except ValueError:
        shown = text.decode(errors="replace").strip()
        raise ValueError(f"the {name} {shown!r} is not a whole number") from None


def _with_size(size: int, text: bytes, name: str, columns: Columns) -> int:
    more = _whole(text, name)
    most = MAX_SIZE_BYTES - size
    if more > most and columns.any_size:
        return MAX_SIZE_BYTES
    if more > most:
        raise ValueError(
            f"the {name} {more} is not between 0 and {most}: {_in_kib(columns)}, or do not count "
            "in bytes"
        )
    if more < 0:
        raise ValueError(f"the {name} {more} is negative")
    return size + more


def _in_kib(columns: Columns) -> str:
    """Return the way out for what has objects above 4 GiB."""
    mark = columns.delimiter.decode()
    places = [place + 1 for place in (columns.size, columns.key_size) if place >= 0]
    changes = "".join(f"${place}=int((${place}+1023)/1024);" for place in places)
    lines = "NR>1" if columns.has_header else ""
    return (
        "for larger objects write sizes of 1024 bytes, as by "
        f"awk -F'{mark}' -v OFS='{mark}' '{lines}{{{changes}}}1' where nothing stands in quotes "
        "(what is told in bytes is 1024 times as much then)"
    )


def shown(line: bytes) -> str:
    """Return the beginning of a line, as messages show it."""
    return repr(line[:80].decode("utf-8", "replace"))
