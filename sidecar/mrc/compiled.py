"""Stack distances of a trace by the compiled library."""

from __future__ import annotations

from array import array
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.kernel.library import library
from sidecar.traces.file import (
    COMPRESSIONS,
    RECORD_BYTES,
    Progress,
    mapped_records,
    trace_blocks,
    trace_format,
    trace_records,
)
from sidecar.traces.lines import parse_requests, read_columns

if TYPE_CHECKING:
    from sidecar.traces.chunk import TraceChunk

# Places in libCacheSim's records, which traces.binary describes.
_KEY_OFFSET, _SIZE_OFFSET = 4, 12


class CompiledStack:
    """Stack distances of a trace; see ``kernel/shards.c``.

    Args:
        in_bytes: distances are bytes instead of objects.
        rate: R in (0, 1].
        limit_objects: at most so many live objects (fixed-size SHARDS), or ``None``.
        salt: another one gives another sample.
    """

    def __init__(
        self, *, in_bytes: bool, rate: float = 1.0, limit_objects: int | None = None, salt: int = 0
    ) -> None:
        found = library()
        if found is None:
            raise RuntimeError("the compiled library is not installed")
        self._library = found
        threshold = min(round(rate * 2**64), 2**64) % 2**64  # 0 stands for 2^64
        self._stack = found.spreds_mrc_new(in_bytes, threshold, limit_objects or 0, salt)
        if not self._stack:
            raise MemoryError("not enough memory for the stack")

    def take(self, chunk: TraceChunk) -> None:
        """Take requests in order. Raises MemoryError."""
        keys, sizes = chunk.keys, chunk.sizes_bytes
        if keys.dtype != "<u8" or sizes.dtype != "<u4":
            raise TypeError(f"keys are {keys.dtype} and sizes {sizes.dtype}")
        self._take(
            keys.ctypes.data, keys.strides[0], sizes.ctypes.data, sizes.strides[0], len(keys)
        )

    def take_file(
        self,
        path: Path,
        format: str | None = None,  # noqa: A002
        progress: Progress | None = None,
    ) -> None:
        """Take the requests of a file, as ``traces.trace_reader.read_trace`` reads them.

        Raises:
            TraceError: as ``read_trace``.
            MemoryError: there is not enough.
        """
        blocks = trace_blocks(path, progress)
        first = next(blocks, b"")
        if not first:
            return
        kind = trace_format(path, format, first)
        if kind in RECORD_BYTES:
            size = RECORD_BYTES[kind]
            if path.is_file() and path.suffix not in COMPRESSIONS:
                for address, count in mapped_records(path, size, progress):
                    self._take_records(kind, address, count)
            else:
                for block in trace_records(path, chain((first,), blocks), size):
                    buffer = array("B", block)
                    self._take_records(kind, buffer.buffer_info()[0], len(block) // size)
            return
        columns, pieces = read_columns(path, chain((first,), blocks), kind)
        for parsed in parse_requests(self._library, path, columns, pieces):
            keys, sizes = parsed.keys.buffer_info()[0], parsed.sizes_bytes.buffer_info()[0]
            self._take(keys, 8, sizes, 4, parsed.requests)

    def _take_records(self, kind: str, address: int, count: int) -> None:
        if kind == "cache2k":
            if self._library.spreds_mrc_take_cache2k(self._stack, address, count):
                raise MemoryError("not enough memory for the stack")
        else:
            size = RECORD_BYTES[kind]
            self._take(address + _KEY_OFFSET, size, address + _SIZE_OFFSET, size, count)

    def _take(self, keys: int, key_stride: int, sizes: int, size_stride: int, count: int) -> None:
        if self._library.spreds_mrc_take(self._stack, keys, key_stride, sizes, size_stride, count):
            raise MemoryError("not enough memory for the stack")

    @property
    def requests(self) -> int:
        """Seen so far, sampled or not."""
        return int(self._library.spreds_mrc_requests(self._stack))

    @property
    def sampled(self) -> int:
        """Requests of sampled objects."""
        return int(self._library.spreds_mrc_sampled(self._stack))

    @property
    def live_objects(self) -> int:
        """Objects in the stack."""
        return int(self._library.spreds_mrc_live(self._stack))

    @property
    def cold(self) -> float:
        """Requests that the first ones for an object stand for."""
        return float(self._library.spreds_mrc_cold(self._stack))

    def histogram(self) -> tuple[array[int], array[float]]:
        """Distances, shape (k,), increasing, own weight included; and how many requests each
        stands for, shape (k,). Distances above 2,048 stand in bins of 0.1 %, except in an exact
        histogram by objects; a bin is named by its largest distance."""
        count = self._library.spreds_mrc_bins(self._stack, None, None, 0)
        distances, counts = array("Q", bytes(8 * count)), array("d", bytes(8 * count))
        self._library.spreds_mrc_bins(
            self._stack, distances.buffer_info()[0], counts.buffer_info()[0], count
        )
        return distances, counts

    def __del__(self) -> None:
        if getattr(self, "_stack", None):
            self._library.spreds_mrc_free(self._stack)
            self._stack = None
