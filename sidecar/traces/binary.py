"""Traces of fixed binary records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.traces.chunk import TraceChunk, TraceError

ORACLE_GENERAL_RECORD = np.dtype(
    [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next_request", "<i8")]
)


def _records(
    path: Path, blocks: Iterator[bytes], kind: np.dtype[Any]
) -> Iterator[npt.NDArray[Any]]:
    """Whole binary records, a block at a time."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        whole = len(data) - len(data) % kind.itemsize
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data, kind, whole // kind.itemsize)
    if rest:
        raise TraceError(
            f"{path}: ends with {len(rest)} bytes of a record that has {kind.itemsize}"
        )


def _decimal(keys: npt.NDArray[Any]) -> list[bytes]:
    return [b"%d" % key for key in keys.tolist()]


def read_cache2k(path: Path, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    """Raw big-endian int32 keys. Raises TraceError."""
    for records in _records(path, blocks, np.dtype(">i4")):
        yield TraceChunk(
            np.zeros(len(records)),
            records.view(">u4").astype(np.uint64),
            np.ones(len(records), dtype=np.uint32),
            _decimal(records) if texts else None,
        )


def read_oracle_general(path: Path, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    """libCacheSim's records. Raises TraceError."""
    for records in _records(path, blocks, ORACLE_GENERAL_RECORD):
        yield TraceChunk(
            records["time"].astype(np.float64),
            records["key"],
            records["size"],
            _decimal(records["key"]) if texts else None,
        )
