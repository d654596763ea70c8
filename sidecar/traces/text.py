"""Traces of lines: ``time,key,size``, and CacheLib's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sidecar.mrc.library import parse_csv
from sidecar.traces.chunk import TraceChunk, TraceError, identity

COLUMN_NAMES = {
    "time": ("time", "timestamp", "clock_time", "op_time"),
    "key": ("key", "obj_id", "object", "obj", "id", "lbn"),
    "size": ("size", "obj_size", "object_size", "len"),
}
CACHELIB_COLUMNS = (b"op_time", b"key", b"key_size", b"op", b"op_count", b"size")
READS = (b"GET", b"GET_LEASE")


MAX_LINE_BYTES = 1 << 20


def read_csv(path: Path, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    """Lines of ``time,key,size``. Raises TraceError."""
    columns: Columns | None = None
    for number, text in _whole_lines(path, blocks):
        if columns is None:
            columns = _csv_columns(path, text.partition(b"\n")[0])
            if columns.in_header:
                number, text = number + 1, text.partition(b"\n")[2]
        if not texts:
            parsed = parse_csv(text, columns.count, columns.time, columns.key, columns.size)
            if len(parsed.keys):
                yield TraceChunk(parsed.times_seconds, parsed.keys, parsed.sizes_bytes)
            number, text = number + len(parsed.keys), text[parsed.used :]
        times, keys, sizes = [], [], []
        for place, line in enumerate(text.split(b"\n")):
            if not line.strip():
                continue
            fields = line.split(b",")
            try:
                times.append(_time(fields[columns.time]))
                keys.append(_filled(fields[columns.key]))
                sizes.append(_size(fields[columns.size]))
            except (ValueError, IndexError) as error:
                raise _bad_line(path, number + place, line, error) from error
        if keys:
            yield _chunk(times, keys, sizes, texts)


@dataclass(frozen=True)
class Columns:
    """Places of the columns, from 0, how many there are, and whether a header says so."""

    time: int
    key: int
    size: int
    count: int
    in_header: bool


def _csv_columns(path: Path, first: bytes) -> Columns:
    names = [name.strip(b'# \r"').decode("utf-8", "replace").lower() for name in first.split(b",")]
    if first[:1].isdigit():
        return Columns(0, 1, 2, len(names), in_header=False)

    def place(column: str) -> int:
        for name in COLUMN_NAMES[column]:
            if name in names:
                return names.index(name)
        raise TraceError(
            f"{path}: line 1: the header {first[:80]!r} names no column for the {column} "
            f"(one of {', '.join(COLUMN_NAMES[column])})"
        )

    return Columns(place("time"), place("key"), place("size"), len(names), in_header=True)


def read_cachelib(path: Path, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    """CacheLib's key-value traces. Raises TraceError."""
    header: list[bytes] = []
    for number, text in _whole_lines(path, blocks):
        lines = text.split(b"\n")
        if not header:
            header = [name.strip() for name in lines[0].split(b",")]
            for name in CACHELIB_COLUMNS:
                if name not in header:
                    raise TraceError(f"{path}: line 1: the header has no column {name.decode()!r}")
            time, key, key_size, operation, count, size = map(header.index, CACHELIB_COLUMNS)
            lines[0] = b""
        times, keys, sizes = [], [], []
        for place, line in enumerate(lines):
            if not line.strip():
                continue
            fields = line.split(b",")
            try:
                if len(fields) < len(header):
                    raise ValueError(f"{len(fields)} columns where the header has {len(header)}")
                repeats = int(fields[count])
                if repeats < 0:
                    raise ValueError(f"op_count {repeats} is negative")
                at = _time(fields[time])
                name = _filled(fields[key])
                size_bytes = _size(fields[size]) + _size(fields[key_size])
            except ValueError as error:
                raise _bad_line(path, number + place, line, error) from error
            if fields[operation] in READS:
                times += [at] * repeats
                keys += [name] * repeats
                sizes += [size_bytes] * repeats
        if keys:
            yield _chunk(times, keys, sizes, texts)


def _whole_lines(path: Path, blocks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The text in pieces that end where a line ends, each with the number of its first line."""
    number = 1
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            whole = rest + block[:end] if rest else block[:end]
            yield number, whole
            number += whole.count(b"\n")
            rest = block[end:]
        else:
            rest += block
        if len(rest) > MAX_LINE_BYTES:
            raise TraceError(f"{path}: line {number}: longer than {MAX_LINE_BYTES} bytes")
    if rest:
        yield number, rest


def _time(text: bytes) -> float:
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(f"the time {seconds} is not finite")
    return seconds


def _filled(text: bytes) -> bytes:
    text = text.strip()
    if not text:
        raise ValueError("the key is empty")
    return text


def _size(text: bytes) -> int:
    size = int(text)
    if not 0 <= size < 1 << 32:
        raise ValueError(f"the size {size} is not within 0 and 2^32")
    return size


def _bad_line(path: Path, number: int, line: bytes, error: Exception) -> TraceError:
    why = "too few columns" if isinstance(error, IndexError) else error
    return TraceError(f"{path}: line {number}: {line[:80]!r} is no request: {why}")


def _chunk(times: list[float], keys: list[bytes], sizes: list[int], texts: bool) -> TraceChunk:
    return TraceChunk(
        np.array(times, dtype=np.float64),
        np.fromiter(map(identity, keys), dtype=np.uint64, count=len(keys)),
        np.array(sizes, dtype=np.uint32),
        keys if texts else None,
    )
