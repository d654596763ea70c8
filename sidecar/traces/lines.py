"""Traces of lines, ``time,key,size`` or CacheLib's: what each says, and how it is refused."""

from __future__ import annotations

from ctypes import byref, c_double, c_int32, c_uint32, c_uint64

from sidecar.traces.file import TraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from ctypes import CDLL, Array

    from sidecar.traces.file import TracePath

COLUMN_NAMES = {
    "time": ("time", "timestamp", "clock_time", "op_time"),
    "key": ("key", "obj_id", "object", "obj", "id", "lbn"),
    "size": ("size", "obj_size", "object_size", "len"),
}
OPERATION = "op"
CACHELIB_COLUMNS = ("op_time", "key", "size", "key_size", "op", "op_count")
READS = (b"get", b"gets", b"get_lease")
"""Operations that count, in capitals or not."""

MAX_LINE_BYTES = 1 << 20
MAX_REPEATS = 1 << 24
_ROOM = 1 << 14  # requests parsed at a time


class Columns:
    """Places of the columns, from 0; -1 for one that the format does not have.

    Attributes:
        least: a line has so many columns, or more.
        time, key, size: the size is in bytes; where there is no column, time and size are 0.
        key_size: added to the size.
        operation: only reads count.
        repeats: how many requests the line stands for.
        most: a line has no more columns, where nothing says what they are.
        others: lines that are no reads, counted by whoever reads them.
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
        most: int = -1,
    ) -> None:
        self.least, self.time, self.key, self.size = least, time, key, size
        self.key_size, self.operation, self.repeats = key_size, operation, repeats
        self.most, self.others = most, 0

    def for_c(self) -> Array[c_int32]:
        """As ``lines.c`` has them."""
        places = (self.time, self.key, self.size, self.key_size, self.operation, self.repeats)
        return (c_int32 * 8)(self.least, *places, self.most)


def parse_line(line: bytes, columns: Columns) -> tuple[float, bytes, int, int]:
    """Time, key, size and how many requests of one line. Raises ValueError."""
    fields = line.split(b",")
    if len(fields) < columns.least:
        raise ValueError(f"too few columns, {len(fields)} instead of {columns.least}")
    if 0 <= columns.most < len(fields):
        raise ValueError(f"too many columns, {len(fields)} instead of {columns.most}")
    seconds = float(fields[columns.time]) if columns.time >= 0 else 0.0
    if not abs(seconds) < float("inf"):
        raise ValueError(f"the time {seconds} is not finite")
    key = fields[columns.key].strip()
    if not key:
        raise ValueError("the key is empty")
    size = _whole(fields[columns.size], "size", 1 << 32) if columns.size >= 0 else 0
    repeats = 1
    if columns.repeats >= 0:
        size += _whole(fields[columns.key_size], "key_size", (1 << 32) - size)
        repeats = _whole(fields[columns.repeats], "op_count", MAX_REPEATS)
    if columns.operation >= 0 and fields[columns.operation].strip().lower() not in READS:
        columns.others += 1
        repeats = 0
    return seconds, key, size, repeats


def _whole(text: bytes, name: str, limit: int) -> int:
    value = int(text)
    if not 0 <= value < limit:
        raise ValueError(f"the {name} {value} is not between 0 and {limit - 1}")
    return value


def identity(text: bytes) -> int:
    """The u64 that stands for a key: a decimal number is its own, another text has the
    samples' hash, with salt 0."""
    if text.isdigit() and len(text) <= 20 and (text[0] != 48 or len(text) == 1):
        number = int(text)
        if number < 1 << 64:
            return number
    from sidecar.samples.wire_format import key_hash

    return key_hash(text, 0)


class WholeLines:
    """The lines of a file, each with its end, some of them at a time; none is empty.

    Attributes:
        number: of the next line, from 1. Whoever takes lines counts on: to count them here as well
            would take a tenth of the time.
    """

    def __init__(self, path: TracePath, blocks: Iterator[bytes]) -> None:
        self.number = 1
        self._path = path
        self._pieces = self._read(blocks)
        self._first = next(self._pieces, b"")

    def header(self) -> bytes:
        """The first line, without its end; it may be taken away by ``skip_header``."""
        return self._first.partition(b"\n")[0]

    def skip_header(self) -> None:
        """The first line holds no request."""
        self._first = self._first.partition(b"\n")[2]
        self.number = 2

    def __iter__(self) -> Iterator[bytes]:
        """Raises TraceError if a line is too long to be one."""
        if self._first:
            yield self._first
        yield from self._pieces

    def _read(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        rest = b""
        for block in blocks:
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = block[end:]
            else:
                rest += block
            if len(rest) > MAX_LINE_BYTES:
                raise TraceError(
                    f"{self._path}: line {self.number}: longer than {MAX_LINE_BYTES} bytes"
                )
        if rest:
            yield rest + b"\n"


def unused_columns(*, in_bytes: bool, timed: bool = False) -> Sequence[str]:
    """What a CSV may lack if nobody counts in bytes, or nobody asks when a request was."""
    return [name for name, used in (("time", timed), ("size", in_bytes)) if not used]


def read_columns(
    path: TracePath, lines: WholeLines, kind: str, may_lack: Sequence[str] = ()
) -> Columns:
    """What the columns are; a header is skipped.

    Args:
        path: of the file.
        lines: of the file, from its first on.
        kind: ``csv`` or ``cachelib``.
        may_lack: those of ``COLUMN_NAMES`` that the header of a CSV need not name.

    Raises:
        TraceError: the header is missing or wrong.
    """
    header = lines.header()
    if kind == "csv" and header[:1].isdigit():
        count = header.count(b",") + 1
        if count != 3:
            raise TraceError(
                f"{path}: line 1: {_shown(header)} has {count} columns and no header is above it: "
                "without one they are time,key,size; it may name more and in any order, and with "
                f"the column {OPERATION} only reads count"
            )
        return Columns(3, 0, 1, 2, most=3)
    lines.skip_header()
    names = [name.strip(b'# \r"').decode("utf-8", "replace").lower() for name in header.split(b",")]
    if kind == "csv":
        time, key, size = (
            _place(path, header, names, column, column in may_lack) for column in COLUMN_NAMES
        )
        operation = names.index(OPERATION) if OPERATION in names else -1
        return Columns(max(time, key, size, operation) + 1, time, key, size, operation=operation)
    for name in CACHELIB_COLUMNS:
        if name not in names:
            raise TraceError(f"{path}: line 1: the header has no column {name!r}")
    return Columns(len(names), *map(names.index, CACHELIB_COLUMNS))


def _place(path: TracePath, header: bytes, names: list[str], column: str, may_lack: bool) -> int:
    for name in COLUMN_NAMES[column]:
        if name in names:
            return names.index(name)
    if may_lack:
        return -1
    raise TraceError(
        f"{path}: line 1: the header {_shown(header)} names no column for the {column} "
        f"(one of {', '.join(COLUMN_NAMES[column])})"
    )


def _shown(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))


def refused(path: TracePath, number: int, line: bytes, error: ValueError) -> TraceError:
    """The error that names a line."""
    return TraceError(f"{path}: line {number}: {_shown(line)} is not a request: {error}")


class ParsedRequests:
    """Requests, in buffers that are used again for the next ones.

    Attributes:
        requests: how many of the elements are some.
        more: how many times the last of them came again at once, where that is not spelt out.
        times_seconds, keys, sizes_bytes: the keys are identities.
    """

    def __init__(self) -> None:
        self.requests = self.more = 0
        self.times_seconds = (c_double * _ROOM)()
        self.keys = (c_uint64 * _ROOM)()
        self.sizes_bytes = (c_uint32 * _ROOM)()

    def fill(
        self, line: tuple[float, bytes, int, int], *, spelt_out: bool
    ) -> Iterator[ParsedRequests]:
        """With the requests of one line, as ``parse_line`` has it; ``spelt_out``: as often as it
        takes, and otherwise at once, with the rest of them in ``more``."""
        time, key, size, repeats = line
        some = min(repeats, _ROOM if spelt_out else 1)
        self.times_seconds[:some] = [time] * some
        self.keys[:some] = [identity(key)] * some
        self.sizes_bytes[:some] = [size] * some
        if not spelt_out and repeats:
            self.requests, self.more = 1, repeats - 1
            yield self
            self.more = 0
            return
        for left in range(repeats, 0, -_ROOM):
            self.requests = min(left, _ROOM)
            yield self


def parse_requests(
    library: CDLL, path: TracePath, columns: Columns, lines: WholeLines, *, spelt_out: bool = True
) -> Iterator[ParsedRequests]:
    """The requests of lines, by the compiled library; Python looks at the odd ones only.

    Args:
        library: the compiled one.
        path, columns, lines: of the file.
        spelt_out: as of ``ParsedRequests.fill``.

    Raises:
        TraceError: a line does not parse.
    """
    places, parsed = columns.for_c(), ParsedRequests()
    buffers = (parsed.times_seconds, parsed.keys, parsed.sizes_bytes)
    used, count, others = c_uint64(), c_uint64(), c_uint64()
    for piece in lines:
        offset = 0
        while offset < len(piece):
            parsed.requests = library.spreds_lines_parse(
                *(piece, offset, len(piece), places, *buffers, _ROOM),
                *(byref(used), byref(count), byref(others)),
            )
            if parsed.requests:
                yield parsed
            offset += used.value
            lines.number += count.value
            columns.others += others.value
            if used.value:
                continue
            end = piece.index(b"\n", offset) + 1
            line = piece[offset : end - 1]
            if line.strip():
                try:
                    read = parse_line(line, columns)
                except ValueError as error:
                    raise refused(path, lines.number, line, error) from error
                yield from parsed.fill(read, spelt_out=spelt_out)
            offset = end
            lines.number += 1
