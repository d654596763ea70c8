"""Which write fills which miss."""

from __future__ import annotations

from ctypes import CDLL
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library
from sidecar.samples.wire_format import Operation

_READ_MISS, _WRITE = int(Operation.READ_MISS), int(Operation.WRITE)


class Counted(NamedTuple):
    """Misses that were followed by a write in time, and by none; seconds from miss to write, of all
    fills together."""

    fills: float
    unfilled: float
    seconds: float


class Fills:
    """Pairs the first miss of each key with the first write after it.

    A bounded number of misses wait: at most ``most_pending``, each for ``longest_us``.
    """

    def __init__(self, longest_us: float, most_pending: int) -> None:
        self._longest_us = longest_us
        self._most_pending = most_pending
        self._missed_at_us: dict[int, float] = {}

    def take(
        self,
        keys: npt.NDArray[np.uint64],
        operations: npt.NDArray[np.uint8],
        times_us: npt.NDArray[np.float64],
        now_us: float,
    ) -> Counted:
        """Take accesses in order, shapes (n,), of which the last was at ``now_us``."""
        places = np.flatnonzero((operations == _READ_MISS) | (operations == _WRITE))
        pending = self._missed_at_us
        waited: list[float] = []
        for key, missed, time_us in zip(
            keys[places].tolist(),
            (operations[places] == _READ_MISS).tolist(),
            times_us[places].tolist(),
            strict=True,
        ):
            if missed:
                pending.setdefault(key, time_us)
            elif key in pending:
                waited.append(max(0.0, time_us - pending.pop(key)))
        in_time = [one for one in waited if one <= self._longest_us]
        unfilled = len(waited) - len(in_time) + self._give_up(now_us - self._longest_us)
        return Counted(len(in_time), unfilled, sum(one / 1e6 for one in in_time))

    def _give_up(self, before_us: float) -> int:
        """Forget the misses that waited too long, whose number is returned, and the oldest of too
        many."""
        pending, old = self._missed_at_us, 0
        while pending:
            oldest = next(iter(pending))
            if pending[oldest] >= before_us and len(pending) <= self._most_pending:
                break
            # That there are many does not show that they stay unfilled: only the old ones count.
            old += pending.pop(oldest) < before_us
        return old

    def clear(self) -> None:
        """Forget the misses that wait."""
        self._missed_at_us.clear()


class CompiledFills:
    """The same by the compiled library; see ``kernel/fills.c``.

    Attributes:
        handle: the library's fills.
    """

    def __init__(self, found: CDLL, longest_us: float, most_pending: int) -> None:
        self._library = found
        self._limits = (longest_us, most_pending)
        self.handle = found.spreds_fills_new()
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
        """As ``Fills.take``. Raises MemoryError."""
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
        """As ``Fills.clear``."""
        self._library.spreds_fills_clear(self.handle)


def new_fills(longest_us: float, most_pending: int) -> Fills | CompiledFills:
    """Without any miss: the compiled ones where there is the library."""
    found = library()
    if found is None:
        return Fills(longest_us, most_pending)
    return CompiledFills(found, longest_us, most_pending)
