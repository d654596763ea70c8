"""Tencent's traces of block devices: time, sector, sectors, 0 (read) or 1 (write), volume."""

from __future__ import annotations

from sidecar.traces.blocks import SECTOR_BYTES, BlockFormat

__all__ = ["detect", "read"]

_FORMAT = BlockFormat(
    rb"(?P<time>\d+),(?P<offset>\d+),(?P<size>\d+),(?P<operation>[01]),(?P<volume>\d+)",
    offset_bytes=SECTOR_BYTES,
    size_bytes=SECTOR_BYTES,
    operations={b"0": b"R", b"1": b"W"},
)
detect, read = _FORMAT.detect, _FORMAT.read
