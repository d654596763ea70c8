"""The fills of ``sidecar/curves/backend_latency.py`` in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.curves.backend_latency import WAIT_BINS
from sidecar.samples.wire_format import Operation

_READ_HIT, _READ_MISS, _WRITE = map(int, (Operation.READ_HIT, Operation.READ_MISS, Operation.WRITE))
_MISSES, _HITS = 0, 1
_WRITTEN, _SECONDS, _UNWRITTEN = 0, 1, 2
MOST_ROUNDS = 64


class Fills:
    """Pairs the first miss of each key, and the first hit of one key in eight, with what ends its
    wait; counts as there.

    A bounded number of each wait: at most ``most_pending``, each for ``longest_us``.
    """

    def __init__(self, longest_us: float, most_pending: int) -> None:
        self._longest_us = longest_us
        self._most_pending = most_pending
        # By key: when it began, and how many had begun by then.
        self._pending: tuple[dict[int, tuple[float, int]], ...] = ({}, {})
        self._begun = [0, 0]
        self.waits = np.zeros((2, 3, WAIT_BINS))

    def __len__(self) -> int:
        return sum(map(len, self._pending))

    def take(
        self,
        keys: npt.NDArray[np.uint64],
        operations: npt.NDArray[np.uint8],
        times_us: npt.NDArray[np.float64],
        now_us: float,
    ) -> None:
        """Take accesses in order, shapes (n,), of which the last was at ``now_us``."""
        for key, operation, time_us in zip(
            keys.tolist(), operations.tolist(), times_us.tolist(), strict=True
        ):
            if operation == _WRITE:
                self._end(_MISSES, key, time_us, written=True)
            if operation == _READ_MISS:
                self._begin(_MISSES, key, time_us)
            if key >> 45 & 7:
                continue
            if operation == _READ_HIT:
                self._begin(_HITS, key, time_us)
            else:
                self._end(_HITS, key, time_us, written=operation == _WRITE)
        for kind in (_MISSES, _HITS):
            self._give_up(kind, now_us)

    def _begin(self, kind: int, key: int, time_us: float) -> None:
        if key not in self._pending[kind]:
            self._begun[kind] += 1
            self._pending[kind][key] = (time_us, self._begun[kind])

    def _end(self, kind: int, key: int, time_us: float, *, written: bool) -> None:
        if key not in self._pending[kind]:
            return
        waited_us = max(0.0, time_us - self._pending[kind].pop(key)[0])
        if waited_us > self._longest_us:
            self.waits[kind, _UNWRITTEN, -1] += 1
            return
        octave = int(np.log2(waited_us)) if waited_us >= 2 else 0
        self.waits[kind, _WRITTEN if written else _UNWRITTEN, octave] += 1
        self.waits[kind, _SECONDS, octave] += waited_us / 1e6 if written else 0.0

    def _give_up(self, kind: int, now_us: float) -> None:
        """Forget those that waited too long or are of a later time, and the oldest of too many."""
        pending, before_us = self._pending[kind], now_us - self._longest_us
        while pending:
            oldest = next(iter(pending))
            time_us, number = pending[oldest]
            is_recent = self._begun[kind] + 1 - number <= MOST_ROUNDS * self._most_pending
            if before_us <= time_us <= now_us and len(pending) <= self._most_pending and is_recent:
                break
            # That there are many does not show that they stay unfilled: only the old ones count.
            self.waits[kind, _UNWRITTEN, -1] += time_us < before_us
            del pending[oldest]

    def clear(self) -> None:
        """Forget the accesses that wait."""
        for pending in self._pending:
            pending.clear()
