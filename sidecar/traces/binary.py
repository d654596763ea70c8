"""Traces of fixed binary records, as chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sidecar.traces.chunk import TraceChunk
from sidecar.traces.file import trace_records

if TYPE_CHECKING:
    from sidecar.traces.file import TracePath

ORACLE_GENERAL_RECORD = np.dtype(
    [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next_request", "<i8")]
)


def _decimal(keys: npt.NDArray[np.generic]) -> list[bytes]:
    return [b"%d" % key for key in keys.tolist()]


def read_cache2k(path: TracePath, blocks: Iterator[bytes], texts: bool) -> Iterator[TraceChunk]:
    """Raw big-endian int32 keys. Raises TraceError."""
    for block in trace_records(path, blocks, 4):
        records = np.frombuffer(block, ">i4")
        yield TraceChunk(
            np.zeros(len(records)),
            records.view(">u4").astype(np.uint64),
            np.ones(len(records), dtype=np.uint32),
            _decimal(records) if texts else None,
        )


def read_oracle_general(
    path: TracePath, blocks: Iterator[bytes], texts: bool
) -> Iterator[TraceChunk]:
    """libCacheSim's records. Raises TraceError."""
    for block in trace_records(path, blocks, ORACLE_GENERAL_RECORD.itemsize):
        records = np.frombuffer(block, ORACLE_GENERAL_RECORD)
        yield TraceChunk(
            records["time"].astype(np.float64),
            records["key"],
            records["size"],
            _decimal(records["key"]) if texts else None,
        )
