"""Reads the Storage Performance Council's traces, as UMass has them: unit, sector, size, R or W,
time."""

from __future__ import annotations

from sidecar.traces.blocks import SECTOR_BYTES, BlockFormat

__all__ = ["detect", "read"]

UNIT_IS_KNOWN = True
_FORMAT = BlockFormat(
    "spc",
    rb"(?P<volume>\d+),(?P<offset>\d+),(?P<size>\d+),(?P<operation>[RrWw]),(?P<time>\d[\d.]*)(,.*)?",
    sure=rb",\d+\.\d+(,|$)",
    offset_bytes=SECTOR_BYTES,
)
detect, read = _FORMAT.detect, _FORMAT.read
