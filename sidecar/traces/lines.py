"""Traces of lines, ``time,key,size`` or CacheLib's: what each says, and how it is refused."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from ctypes import CDLL, byref, c_char_p, c_int32, c_uint64, c_void_p, cast
from pathlib import Path
from typing import NamedTuple

from sidecar.samples.wire_format import MAX_WORD, key_hash
from sidecar.traces.file import TraceError

COLUMN_NAMES = {
    "time": ("time", "timestamp", "clock_time", "op_time"),
    "key": ("key", "obj_id", "object", "obj", "id", "lbn"),
    "size": ("size", "obj_size", "object_size", "len"),
}
CACHELIB_COLUMNS = ("op_time", "key", "size", "key_size", "op", "op_count")
READS = (b"GET", b"GET_LEASE")

MAX_LINE_BYTES = 1 << 20
MAX_REPEATS = 1 << 24
_ROOM = 1 << 14  # requests parsed at a time


class Columns(NamedTuple):
    """Places of the columns, from 0; -1 for one that the format does not have.

    The same fields, in this order, as in ``lines.c``.

    Attributes:
        least: a line has so many columns, or more.
        time, key, size: the size is in bytes.
        key_size: added to the size.
        operation: only reads count.
        repeats: how many requests the line stands for.
    """

    least: int
    time: int
    key: int
    size: int
    key_size: int = -1
    operation: int = -1
    repeats: int = -1


def parse_line(line: bytes, columns: Columns) -> tuple[float, bytes, int, int]:
    """Time, key, size and how many requests of one line. Raises ValueError."""
    fields = line.split(b",")
    if len(fields) < columns.least:
        raise ValueError(f"too few columns, {len(fields)} instead of {columns.least}")
    seconds = float(fields[columns.time])
    if not math.isfinite(seconds):
        raise ValueError(f"the time {seconds} is not finite")
    key = fields[columns.key].strip()
    if not key:
        raise ValueError("the key is empty")
    size = _whole(fields[columns.size], "size", 1 << 32)
    repeats = 1
    if columns.repeats >= 0:
        size += _whole(fields[columns.key_size], "key_size", (1 << 32) - size)
        repeats = _whole(fields[columns.repeats], "op_count", MAX_REPEATS)
        if fields[columns.operation].strip() not in READS:
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
        if number <= MAX_WORD:
            return number
    return key_hash(text, 0)


class Lines(NamedTuple):
    """Whole lines of a trace, each with its end.

    Attributes:
        number: of the first, from 1.
        text: the lines.
    """

    number: int
    text: bytes


def read_columns(path: Path, blocks: Iterator[bytes], kind: str) -> tuple[Columns, Iterator[Lines]]:
    """What the columns are, and the lines that hold requests.

    Args:
        path: of the file.
        blocks: of its contents.
        kind: ``csv`` or ``cachelib``.

    Raises:
        TraceError: the header is missing or wrong.
    """
    pieces = _whole_lines(path, blocks)
    first = next(pieces, Lines(1, b""))
    header, _, after = first.text.partition(b"\n")
    if kind == "csv" and header[:1].isdigit():
        return Columns(3, 0, 1, 2), _and_then(first, pieces)
    names = [name.strip(b'# \r"').decode("utf-8", "replace").lower() for name in header.split(b",")]
    if kind == "csv":
        time, key, size = (_place(path, header, names, column) for column in COLUMN_NAMES)
        columns = Columns(max(time, key, size) + 1, time, key, size)
    else:
        for name in CACHELIB_COLUMNS:
            if name not in names:
                raise TraceError(f"{path}: line 1: the header has no column {name!r}")
        columns = Columns(len(names), *map(names.index, CACHELIB_COLUMNS))
    return columns, _and_then(Lines(2, after), pieces)


def _and_then(first: Lines, pieces: Iterator[Lines]) -> Iterator[Lines]:
    yield first
    yield from pieces


def _place(path: Path, header: bytes, names: list[str], column: str) -> int:
    for name in COLUMN_NAMES[column]:
        if name in names:
            return names.index(name)
    raise TraceError(
        f"{path}: line 1: the header {header[:80]!r} names no column for the {column} "
        f"(one of {', '.join(COLUMN_NAMES[column])})"
    )


def _whole_lines(path: Path, blocks: Iterator[bytes]) -> Iterator[Lines]:
    number = 1
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            whole = rest + block[:end]
            yield Lines(number, whole)
            number += whole.count(b"\n")
            rest = block[end:]
        else:
            rest += block
        if len(rest) > MAX_LINE_BYTES:
            raise TraceError(f"{path}: line {number}: longer than {MAX_LINE_BYTES} bytes")
    if rest:
        yield Lines(number, rest + b"\n")


def refused(path: Path, number: int, line: bytes, error: ValueError) -> TraceError:
    """The error that names a line."""
    return TraceError(f"{path}: line {number}: {line[:80]!r} is not a request: {error}")


class ParsedRequests(NamedTuple):
    """Requests, in buffers that are used again for the next ones.

    Attributes:
        requests: how many of the elements are some.
        times_seconds, keys, sizes_bytes: float64, uint64 identities, uint32.
    """

    requests: int
    times_seconds: array[float]
    keys: array[int]
    sizes_bytes: array[int]


def parse_requests(
    library: CDLL, path: Path, columns: Columns, pieces: Iterator[Lines]
) -> Iterator[ParsedRequests]:
    """The requests of lines, by the compiled library; Python looks at the odd ones only.

    Raises:
        TraceError: a line does not parse.
    """
    c_columns = (c_int32 * 7)(*columns)
    times, keys = array("d", bytes(8 * _ROOM)), array("Q", bytes(8 * _ROOM))
    sizes = array("I", bytes(4 * _ROOM))
    addresses = [times.buffer_info()[0], keys.buffer_info()[0], sizes.buffer_info()[0]]
    used, lines = c_uint64(), c_uint64()
    for piece in pieces:
        start = cast(c_char_p(piece.text), c_void_p).value or 0
        offset, number = 0, piece.number
        while offset < len(piece.text):
            count = library.spreds_lines_parse(
                *(start + offset, len(piece.text) - offset, c_columns, *addresses, _ROOM),
                *(byref(used), byref(lines)),
            )
            if count:
                yield ParsedRequests(count, times, keys, sizes)
            offset, number = offset + used.value, number + lines.value
            if used.value:
                continue
            end = piece.text.index(b"\n", offset) + 1
            line = piece.text[offset : end - 1]
            offset, number = end, number + 1
            if not line.strip():
                continue
            try:
                time, key, size, repeats = parse_line(line, columns)
            except ValueError as error:
                raise refused(path, number - 1, line, error) from error
            some = min(repeats, _ROOM)
            times[:some] = array("d", [time]) * some
            keys[:some] = array("Q", [identity(key)]) * some
            sizes[:some] = array("I", [size]) * some
            for left in range(repeats, 0, -_ROOM):
                yield ParsedRequests(min(left, _ROOM), times, keys, sizes)
