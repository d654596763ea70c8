"""Reads Tencent's traces of block devices: time, sector, sectors, 0 (read) or 1 (write), volume."""

from __future__ import annotations

from sidecar.traces.blocks import SECTOR_BYTES, BlockFormat

__all__ = ["detect", "read"]

UNIT_IS_KNOWN = True
_FORMAT = BlockFormat(
    "tencent",
    rb"(?P<time>\d+),(?P<offset>\d+),(?P<size>\d+),(?P<operation>[01]),(?P<volume>\d+)",
    offset_bytes=SECTOR_BYTES,
    size_bytes=SECTOR_BYTES,
    reads=(b"0",),
)
detect, read = _FORMAT.detect, _FORMAT.read
