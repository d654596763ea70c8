"""Stack distances of a trace by the compiled library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.mrc.library import library
from sidecar.traces.chunk import TraceChunk


class CompiledStack:
    """Stack distances of a trace; see ``kernel.c``.

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
        if keys.dtype != np.uint64 or sizes.dtype != np.uint32:  # byte order is part of a dtype
            raise TypeError(f"keys are {keys.dtype} and sizes {sizes.dtype}")
        if self._library.spreds_mrc_take(
            self._stack,
            keys.ctypes.data,
            keys.strides[0],
            sizes.ctypes.data,
            sizes.strides[0],
            len(keys),
        ):
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

    def histogram(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
        """Distances, shape (k,), increasing, own weight included; and how many requests each
        stands for, shape (k,)."""
        count = self._library.spreds_mrc_bins(self._stack, None, None, 0)
        distances = np.zeros(count, dtype=np.uint64)
        counts = np.zeros(count)
        self._library.spreds_mrc_bins(self._stack, distances.ctypes.data, counts.ctypes.data, count)
        return distances, counts

    def __del__(self) -> None:
        if getattr(self, "_stack", None):
            self._library.spreds_mrc_free(self._stack)
            self._stack = None
