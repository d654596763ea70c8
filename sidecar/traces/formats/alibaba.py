"""Alibaba's traces of block devices: device, R or W, offset, size, microseconds."""

from __future__ import annotations

from sidecar.traces.blocks import BlockFormat

__all__ = ["detect", "read"]

_FORMAT = BlockFormat(
    rb"(?P<volume>\d+),(?P<operation>[RW]),(?P<offset>\d+),(?P<size>\d+),(?P<time>\d+)",
    ticks_per_second=1e6,
)
detect, read = _FORMAT.detect, _FORMAT.read
