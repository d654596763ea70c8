"""Which write fills which miss, and what is written by chance."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library

FloatArray = npt.NDArray[np.float64]

# As in ``kernel/fills.h``.
WAIT_BINS = 27


class Fills:
    """Pairs the first miss of each key, and the first hit of one key in eight, with what ends its
    wait: for a miss the next write, for a hit whatever changes the key; see ``kernel/fills.c``.

    A bounded number of each wait: at most ``most_pending``, each for ``longest_us``.

    Attributes:
        handle: the library's fills.
        waits: counts, shape (2, 3, ``WAIT_BINS``): of misses and of hits, those that a write ended,
            their seconds in all, and others. Bin i is of waits of 2^i up to 2^(i+1) microseconds,
            the last one of those that were given up. Whoever changes it changes what is counted.
    """

    def __init__(self, longest_us: float, most_pending: int) -> None:
        self._library = library()
        self._limits = (longest_us, most_pending)
        self.handle = self._library.spreds_fills_new()
        if not self.handle:
            raise MemoryError("not enough memory for fills")
        counts = ctypes.c_double * (2 * 3 * WAIT_BINS)
        found = counts.from_address(self._library.spreds_fills_waits(self.handle))
        self.waits: FloatArray = np.ctypeslib.as_array(found).reshape(2, 3, WAIT_BINS)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_fills_free(self.handle)

    def take(
        self,
        keys: npt.NDArray[np.uint64],
        operations: npt.NDArray[np.uint8],
        times_us: FloatArray,
        now_us: float,
    ) -> None:
        """Take accesses in order, shapes (n,), of which the last was at ``now_us``. Raises
        MemoryError."""
        keys = np.ascontiguousarray(keys)
        operations = np.ascontiguousarray(operations)
        times_us = np.ascontiguousarray(times_us)
        if self._library.spreds_fills_take(
            self.handle,
            *(keys.ctypes.data, operations.ctypes.data, times_us.ctypes.data),
            *(len(keys), now_us, *self._limits),
        ):
            raise MemoryError("not enough memory for fills")

    def clear(self) -> None:
        """Forget the accesses that wait."""
        self._library.spreds_fills_clear(self.handle)
