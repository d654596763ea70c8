"""Reads Alibaba's traces of block devices: device, R or W, offset, size, microseconds."""

from __future__ import annotations

from sidecar.traces.blocks import BlockFormat

__all__ = ["detect", "read"]

UNIT_IS_KNOWN = True
_FORMAT = BlockFormat(
    "alibaba",
    rb"(?P<volume>\d+),(?P<operation>[RW]),(?P<offset>\d+),(?P<size>\d+),(?P<time>\d+)",
    sure=rb",\d{16,}$",
    ticks_per_second=1e6,
)
detect, read = _FORMAT.detect, _FORMAT.read
