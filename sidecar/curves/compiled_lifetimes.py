"""The objects with a TTL, as ``lifetimes`` follows them, by the compiled library."""

from __future__ import annotations

import math
from collections.abc import Collection
from ctypes import CDLL, CFUNCTYPE, byref, c_double, c_int, c_uint64

import numpy as np

from sidecar.curves.corrections import Moves
from sidecar.curves.lifetime_distribution import LifetimeDistribution
from sidecar.curves.lifetimes import Lifetimes, TimedAccesses
from sidecar.kernel.library import library

_DRAW = CFUNCTYPE(c_double, c_double)
_ADD = CFUNCTYPE(None, c_double, c_int)


class MovedReads:
    """What ``Corrections`` tells; it stands until more accesses are taken."""

    def __init__(self, lifetimes: CompiledLifetimes) -> None:
        self._lifetimes = lifetimes

    def moves(self) -> tuple[Moves, Moves]:
        """As ``Corrections.moves``."""
        return self._lifetimes.moves(added=True), self._lifetimes.moves(added=False)


class CompiledLifetimes:
    """What ``Lifetimes`` is; see ``kernel/lifetimes.c``. Lifetimes that are not told are guessed in
    Python.

    Attributes:
        handle: the library's lifetimes.
    """

    def __init__(self, found: CDLL) -> None:
        self.distribution = LifetimeDistribution()
        self._library = found
        self._shortest_before = math.inf
        # Kept: the library calls them.
        self._draw, self._add = _DRAW(self._draw_one), _ADD(self._add_one)
        self.handle = found.spreds_lifetimes_new(self._draw, self._add)
        if not self.handle:
            raise MemoryError("not enough memory for lifetimes")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_lifetimes_free(self.handle)

    def _draw_one(self, age_seconds: float) -> float:
        drawn = self.distribution.draw(age_seconds)
        return math.inf if drawn is None else drawn

    def _add_one(self, seconds: float, expired: int) -> None:
        self.distribution.add(seconds, bool(expired))

    def __len__(self) -> int:
        return int(self._library.spreds_lifetimes_alive(self.handle))

    @property
    def waiting(self) -> int:
        return int(self._library.spreds_lifetimes_waiting(self.handle))

    @property
    def shortest_seconds(self) -> float:
        return min(
            float(self._library.spreds_lifetimes_shortest(self.handle, False)),
            self._shortest_before,
            self.distribution.shortest_seconds,
        )

    def refresh(self, average_left_seconds: float) -> None:
        self.distribution.refresh(average_left_seconds)
        self._shortest_before = self._library.spreds_lifetimes_shortest(self.handle, True)

    def take(self, accesses: TimedAccesses, resident_bytes: float) -> MovedReads:
        columns = (
            np.ascontiguousarray(accesses.keys, np.uint64),
            np.ascontiguousarray(accesses.operations, np.uint8),
            np.ascontiguousarray(accesses.left_seconds, np.float64),
            np.ascontiguousarray(accesses.distances_bytes, np.float64),
            np.ascontiguousarray(accesses.times_seconds, np.float64),
        )
        if self._library.spreds_lifetimes_take(
            self.handle,
            *(column.ctypes.data for column in columns),
            len(columns[0]),
            resident_bytes,
        ):
            raise MemoryError("not enough memory for lifetimes")
        return MovedReads(self)

    def moves(self, *, added: bool) -> Moves:
        """Of the accesses that were taken last."""
        count = self._library.spreds_lifetimes_moves(self.handle, added, None, None)
        sizes, ids = np.empty(count), np.empty(count, np.uint64)
        self._library.spreds_lifetimes_moves(self.handle, added, sizes.ctypes.data, ids.ctypes.data)
        return sizes, ids

    def due(self, now_seconds: float) -> list[int]:
        key, gone = c_uint64(), []
        while self._library.spreds_lifetimes_due(self.handle, now_seconds, byref(key)):
            gone.append(key.value)
        return gone

    def keep_only(self, wanted: Collection[int]) -> None:
        keys = np.sort(np.fromiter(wanted, np.uint64))
        self._library.spreds_lifetimes_keep_only(self.handle, keys.ctypes.data, len(keys))


def new_lifetimes() -> CompiledLifetimes | Lifetimes:
    """Without any object: the compiled ones where there is the library."""
    found = library()
    return Lifetimes() if found is None else CompiledLifetimes(found)
