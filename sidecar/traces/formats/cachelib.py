"""Reads CacheLib's key-value traces of any year: tables, whose header says all."""

from __future__ import annotations

from sidecar.traces.beginning import NO
from sidecar.traces.formats.csv import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sidecar.traces.beginning import Beginning

__all__ = ["detect", "read"]


def detect(_beginning: Beginning) -> int:
    """A table with a header is ``csv`` already."""
    return NO
