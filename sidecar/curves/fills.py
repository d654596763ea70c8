"""Which write fills which miss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library


class Counted(NamedTuple):
    """Misses that were followed by a write in time, and by none; seconds from miss to write, of all
    fills together."""

    fills: float
    unfilled: float
    seconds: float


class Fills:
    """Pairs the first miss of each key with the first write after it; see ``kernel/fills.c``.

    A bounded number of misses wait: at most ``most_pending``, each for ``longest_us``.

    Attributes:
        handle: the library's fills.
    """

    def __init__(self, longest_us: float, most_pending: int) -> None:
        self._library = library()
        self._limits = (longest_us, most_pending)
        self.handle = self._library.spreds_fills_new()
        if not self.handle:
            raise MemoryError("not enough memory for fills")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_fills_free(self.handle)

    def take(
        self,
        keys: npt.NDArray[np.uint64],
        operations: npt.NDArray[np.uint8],
        times_us: npt.NDArray[np.float64],
        now_us: float,
    ) -> Counted:
        """Take accesses in order, shapes (n,), of which the last was at ``now_us``. Raises
        MemoryError."""
        keys = np.ascontiguousarray(keys)
        operations = np.ascontiguousarray(operations)
        times_us = np.ascontiguousarray(times_us)
        counted = np.empty(3)
        if self._library.spreds_fills_take(
            self.handle,
            *(keys.ctypes.data, operations.ctypes.data, times_us.ctypes.data),
            *(len(keys), now_us, *self._limits, counted.ctypes.data),
        ):
            raise MemoryError("not enough memory for fills")
        return Counted(*counted.tolist())

    def clear(self) -> None:
        """Forget the misses that wait."""
        self._library.spreds_fills_clear(self.handle)
