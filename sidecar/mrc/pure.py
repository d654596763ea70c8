"""What ``kernel.c`` does, in Python: for machines without a compiler, and to check it with."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from sidecar.curves.lru_stack import LruStack
from sidecar.samples import Operation
from sidecar.traces.chunk import TraceChunk

_BATCH = 1024  # requests between two looks at the number of live objects
_READ = int(Operation.READ_HIT)


class PureStack:
    """Stack distances of a trace; arguments and results as of ``compiled.CompiledStack``.

    With a limit, objects leave after some requests instead of at once: the sample is another one.
    """

    def __init__(
        self, *, in_bytes: bool, rate: float = 1.0, limit_objects: int | None = None, salt: int = 0
    ) -> None:
        self._in_bytes = in_bytes
        self._threshold = min(round(rate * 2**64), 2**64)
        self._limit = limit_objects
        with np.errstate(over="ignore"):
            self._salt = _mix(np.array([salt], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        self._stack = LruStack()
        self._counts: defaultdict[int, float] = defaultdict(float)
        self.requests = 0
        self.sampled = 0
        self.cold = 0.0

    @property
    def live_objects(self) -> int:
        """Objects in the stack."""
        return len(self._stack)

    def take(self, chunk: TraceChunk) -> None:
        """Take requests in order."""
        self.requests += len(chunk)
        hashes = _mix(chunk.keys ^ self._salt)
        weights = np.maximum(chunk.sizes_bytes, 1) if self._in_bytes else np.ones(len(chunk), int)
        for start in range(0, len(chunk), _BATCH):
            part = slice(start, start + _BATCH)
            self._take(hashes[part], weights[part])

    def _take(self, hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.generic]) -> None:
        mine = (
            hashes < np.uint64(self._threshold)
            if self._threshold < 2**64
            else np.ones(len(hashes), dtype=bool)
        )
        keys = hashes[mine].tolist()
        self.sampled += len(keys)
        stands_for = 2**64 / self._threshold
        for above, own in zip(
            *self._stack.access(keys, [_READ] * len(keys), weights[mine].tolist(), 1), strict=True
        ):
            if above < 0:
                self.cold += stands_for
            else:
                self._counts[int(above * stands_for + 0.5) + own] += stands_for
        if self._limit is not None and len(self._stack) > self._limit:
            self._threshold = sorted(self._stack)[self._limit]
            self._stack.forget([key for key in self._stack if key >= self._threshold])

    def histogram(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
        """As of ``CompiledStack``, but with each distance by itself."""
        distances = sorted(self._counts)
        return (
            np.array(distances, dtype=np.uint64),
            np.array([self._counts[distance] for distance in distances]),
        )


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al., OOPSLA'14)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
