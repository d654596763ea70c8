"""Reads VMware's traces of SCSI commands, both versions: binary records with the command's code."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sidecar.traces.beginning import NO, YES
from sidecar.traces.blocks import SECTOR_BYTES, touched
from sidecar.traces.file import TraceError, trace_records
from sidecar.traces.lines import ParsedRequests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.columns import Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions

UNIT_IS_KNOWN = True
# Command, version, size in bytes, sector, microseconds: by the version of the records.
_RECORDS = {1: struct.Struct("<4xI4xHHQQ"), 2: struct.Struct("<HH4xI4xQQ8x")}
_READS = (b"0x28", b"0x88", b"0x8", b"0xa8")


def detect(beginning: Beginning) -> int:
    """Detect the format by the versions in the first records."""
    return NO if beginning.lines or not _version(beginning.first) else YES


def _fields(version: int, fields: tuple[int, ...]) -> tuple[int, ...]:
    if version == 1:
        size, command, stamp, sector, time = fields
    else:
        command, stamp, size, sector, time = fields
    return command, stamp >> 8, size, sector, time


def _version(first: bytes) -> int:
    for version, record in _RECORDS.items():
        some = first[: min(len(first) // record.size, 10) * record.size]
        stamps = {_fields(version, fields)[1] for fields in record.iter_unpack(some)}
        if stamps == {version}:
            return version
    return 0


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Yield the blocks of its reads. Raises TraceError."""
    first = next(blocks, b"")
    version = _version(first)
    if not version:
        raise TraceError(f"{path}: its records are not those of vscsi, version 1 or 2")
    record = _RECORDS[version]

    def contents() -> Iterator[bytes]:
        yield first
        yield from blocks

    def rows() -> Iterator[Row]:
        for records in trace_records(path, contents(), record.size):
            for fields in record.iter_unpack(records):
                command, stamp, size, sector, ticks = _fields(version, fields)
                if stamp != version:
                    raise TraceError(
                        f"{path}: a record of version {stamp} is among those of version {version}: "
                        "split the file where they begin"
                    )
                if options.operations.is_read(b"%#x" % command, _READS):
                    time = ticks / 1e6 * options.ticks_per_second
                    try:
                        yield from touched(time, b"", sector * SECTOR_BYTES, size)
                    except ValueError as error:
                        raise TraceError(f"{path}: a command at sector {sector}: {error}") from None

    return ParsedRequests().fill(rows(), spelt_out=options.spelt_out)
