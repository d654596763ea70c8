"""Finds stack distances of a trace by the compiled library."""

from __future__ import annotations

from ctypes import addressof, c_double, c_uint64

from sidecar.kernel.library import library
from sidecar.traces.file import trace_records
from sidecar.traces.registry import format_named, open_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sidecar.traces.chunk import TraceChunk
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions


class TraceStack:
    """Finds stack distances of a trace; see ``kernel/shards.c``.

    Args:
        in_bytes: distances are bytes instead of objects.
        rate: R in (0, 1].
        limit_objects: at most so many live objects (fixed-size SHARDS), or ``None``.
        salt: another one gives another sample.
    """

    def __init__(
        self, *, in_bytes: bool, rate: float = 1.0, limit_objects: int | None = None, salt: int = 0
    ) -> None:
        self._library = library()
        self.in_bytes = in_bytes
        threshold = min(round(rate * 2**64), 2**64) % 2**64  # 0 stands for 2^64
        self._stack = self._library.spreds_mrc_new(in_bytes, threshold, limit_objects or 0, salt)
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

    def take_records(self, taken_by: str, records: bytes, count: int) -> None:
        """Take whole records, by a function of the library. Raises MemoryError."""
        if getattr(self._library, taken_by)(self._stack, records, count):
            raise MemoryError("not enough memory for the stack")

    def take_parsed(self, parsed: ParsedRequests) -> None:
        """Take what was in lines. Raises MemoryError."""
        last = parsed.requests - 1
        self._take(addressof(parsed.keys), 8, addressof(parsed.sizes_bytes), 4, parsed.requests)
        if parsed.more and self._library.spreds_mrc_take_again(
            self._stack, parsed.keys[last], parsed.sizes_bytes[last], parsed.more
        ):
            raise MemoryError("not enough memory for the stack")

    def _take(self, keys: int, key_stride: int, sizes: int, size_stride: int, count: int) -> None:
        if self._library.spreds_mrc_take(self._stack, keys, key_stride, sizes, size_stride, count):
            raise MemoryError("not enough memory for the stack")

    @property
    def requests(self) -> int:
        """Count those seen so far, sampled or not."""
        return int(self._library.spreds_mrc_requests(self._stack))

    @property
    def sampled(self) -> int:
        """Count the requests of sampled objects."""
        return int(self._library.spreds_mrc_sampled(self._stack))

    @property
    def live_objects(self) -> int:
        """Count the objects in the stack."""
        return int(self._library.spreds_mrc_live(self._stack))

    @property
    def cold(self) -> float:
        """Return the requests that the first ones for an object stand for."""
        return float(self._library.spreds_mrc_cold(self._stack))

    def histogram(self) -> tuple[Sequence[int], Sequence[float]]:
        """Return distances, shape (k,), increasing, own weight included; and how many requests each
        stands for, shape (k,). Distances above 2,048 stand in bins of 0.1 %, except in an exact
        histogram by objects. A bin is named by its largest distance."""
        distances, counts = self._columns(self._library.spreds_mrc_bins)
        return distances, counts

    def _columns(self, write: Callable[..., int]) -> Any:
        count = self._library.spreds_mrc_bins(self._stack, None, None, 0)
        distances, others = (c_uint64 * count)(), (c_double * count)()
        write(self._stack, distances, others, count)
        return distances, others

    def curve(self) -> tuple[Sequence[int], Sequence[float]]:
        """Return the histogram's distances, and the miss ratio of a cache of each of those
        sizes."""
        sizes, miss_ratios = self._columns(self._library.spreds_mrc_curve)
        return sizes, miss_ratios

    def __del__(self) -> None:
        if getattr(self, "_stack", None):
            self._library.spreds_mrc_free(self._stack)
            self._stack = None


def take_file(
    stacks: Sequence[TraceStack],
    path: TracePath,
    format: str | None,  # noqa: A002
    options: ReadOptions,
) -> None:
    """Let each of the stacks take the requests of a file, as ``traces.trace_reader`` reads them.

    Raises:
        TraceError: as ``traces.trace_reader.read_trace``.
        MemoryError: there is not enough.
    """
    kind, blocks = open_trace(path, format, options)
    if not kind:
        return
    module = format_named(kind)
    if hasattr(module, "RECORD_BYTES"):
        for records in trace_records(path, blocks, module.RECORD_BYTES):
            for stack in stacks:
                stack.take_records(module.TAKEN_BY, records, len(records) // module.RECORD_BYTES)
        return
    options.spelt_out = False
    for parsed in module.read(path, blocks, options):
        options.look_at_sizes(parsed)
        for stack in stacks:
            stack.take_parsed(parsed)
