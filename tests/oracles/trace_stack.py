"""The stack of ``sidecar/mrc/trace_stack.py`` in Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sidecar.mrc.sampled_requests import mix, salted
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.trace_reader import read_trace

if TYPE_CHECKING:
    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions

_SUB_BITS = 10
_LEAST_POSITIONS = 4096
_ROOM_FOR_EACH = 2


class PureStack:
    """Stack distances of a trace; arguments and results as of ``TraceStack``, to the
    last bit."""

    def __init__(
        self, *, in_bytes: bool, rate: float = 1.0, limit_objects: int | None = None, salt: int = 0
    ) -> None:
        self.in_bytes = in_bytes
        self._limit = limit_objects
        self._threshold = min(round(rate * 2**64), 2**64)
        self._stands_for = 2.0**64 / float(self._threshold)
        self._linear = not in_bytes and self._threshold == 2**64 and limit_objects is None
        self._salt = salted(salt)
        self._stack = _LruStack()
        self._heap: list[int] = []  # of the live hashes, negative: the largest first
        self._counts: defaultdict[int, float] = defaultdict(float)
        self.requests = 0
        self.sampled = 0
        self.cold = 0.0

    @property
    def live_objects(self) -> int:
        """Count the objects in the stack."""
        return len(self._stack)

    def take(self, chunk: TraceChunk) -> None:
        """Take requests in order."""
        self.requests += len(chunk)
        hashes = mix(chunk.keys ^ self._salt)
        mine = np.flatnonzero(hashes <= np.uint64(self._threshold - 1))
        weights = np.maximum(chunk.sizes_bytes[mine], 1) if self.in_bytes else np.ones_like(mine)
        for key, weight in zip(hashes[mine].tolist(), weights.tolist(), strict=True):
            if key < self._threshold:  # it may have fallen since
                self._take_sampled(key, weight)

    def _take_sampled(self, key: int, weight: int) -> None:
        self.sampled += 1
        found = self._stack.access(key, weight)
        if found:
            above, own = found
            distance = int(above * self._stands_for + 0.5) + own
            bin_end = distance if self._linear else _bin_end(distance)
            self._counts[bin_end] += self._stands_for
            return
        self.cold += self._stands_for
        if self._limit is not None:
            heappush(self._heap, -key)
            if len(self._heap) > self._limit:
                self._threshold = -heappop(self._heap)
                self._stands_for = 2.0**64 / float(self._threshold)
                self._stack.remove(self._threshold)

    def histogram(self) -> tuple[Sequence[int], Sequence[float]]:
        """Return the histogram as ``TraceStack`` does."""
        distances = sorted(self._counts)
        return distances, [self._counts[distance] for distance in distances]

    def curve(self) -> tuple[Sequence[int], Sequence[float]]:
        """Return the curve as ``TraceStack`` does."""
        distances, counts = self.histogram()
        requests = max(self.requests, 1)
        beyond = list(accumulate(reversed(counts), initial=self.cold))[-2::-1]
        return distances, [min(missed / requests, 1.0) for missed in beyond]


def take_file(
    stacks: Sequence[PureStack],
    path: TracePath,
    format: str | None,  # noqa: A002
    options: ReadOptions,
) -> None:
    """Take a file as ``trace_stack.take_file`` does. Raises TraceError."""
    for chunk in read_trace(path, format, options):
        for stack in stacks:
            stack.take(chunk)


def _bin_end(distance: int) -> int:
    """The largest distance in the bin of this one."""
    shift = max(distance.bit_length() - 1 - _SUB_BITS, 0)
    return (((distance >> shift) + 1) << shift) - 1


class _LruStack:
    """A recency stack; a Fenwick tree over the positions has the weights of who stands there."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[int, int]] = {}  # position and weight, by recency
        self._tree: list[int] = []
        self._next = 1
        self._total = 0
        self._renumber()

    def __len__(self) -> int:
        return len(self._objects)

    def access(self, key: int, weight: int) -> tuple[int, int] | None:
        """The weight above the object and its own before, or ``None`` for a new one."""
        if self._next == len(self._tree):
            self._renumber()
        found = None
        if key in self._objects:
            found = self.remove(key)
        self._objects[key] = self._next, weight
        self._add(self._next, weight)
        self._next += 1
        return found

    def remove(self, key: int) -> tuple[int, int]:
        """Take an object out; the weight above it and its own."""
        position, own = self._objects.pop(key)
        above, i = self._total, position
        while i:
            above -= self._tree[i]
            i &= i - 1
        self._add(position, -own)
        return above, own

    def _add(self, position: int, weight: int) -> None:
        self._total += weight
        while position < len(self._tree):
            self._tree[position] += weight
            position += position & -position

    def _renumber(self) -> None:
        live = list(self._objects.items())
        self._tree = [0] * (max(_LEAST_POSITIONS, _ROOM_FOR_EACH * len(live)) + 1)
        self._total, self._next = 0, 1
        for key, (_, weight) in live:
            self._objects[key] = self._next, weight
            self._add(self._next, weight)
            self._next += 1
