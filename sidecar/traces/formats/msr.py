"""Reads Microsoft Research's traces of disks: time (100 ns), host, disk, type, offset, size,
response."""

from __future__ import annotations

from sidecar.traces.blocks import BlockFormat

__all__ = ["detect", "read"]

UNIT_IS_KNOWN = True
_FORMAT = BlockFormat(
    "msr",
    rb"(?P<time>\d+),(?P<volume>[^,]+,\d+),(?P<operation>\w+),(?P<offset>\d+),(?P<size>\d+),\d+",
    sure=rb"^\d{17,},",
    ticks_per_second=1e7,
)
detect, read = _FORMAT.detect, _FORMAT.read
