"""What a server needs at most that does not fill its memory: its own counters say that."""

from __future__ import annotations

import numpy as np

from sidecar.curves.served_reads import FULL_RATIO, is_as_much, tells_of_its_size
from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve


class Unfilled:
    """Of one server."""

    def __init__(self) -> None:
        self._since_seconds: float | None = None
        self._most_bytes = 0

    def look(
        self, previous: ServerReading | None, reading: ServerReading, most_bytes: int = 0
    ) -> None:
        """Take the reading that ends a window, the one that began it, and the most that was used
        between them: a job may come and go. Who evicted meanwhile was full, whoever looked when."""
        most_bytes = max(most_bytes, reading.counted_bytes)
        if (
            previous is None
            or previous.instance != reading.instance
            or most_bytes >= FULL_RATIO * reading.maxmemory_bytes
            or not tells_of_its_size(previous, reading)
            or reading.evicted_keys > previous.evicted_keys
            or not is_as_much(previous.counted_bytes, most_bytes)
        ):
            self._since_seconds, self._most_bytes = None, 0
            return
        if self._since_seconds is None:
            self._since_seconds = previous.at_seconds
        self._most_bytes = max(self._most_bytes, previous.counted_bytes, most_bytes)

    def enough_bytes(self, now_seconds: float, for_seconds: float) -> int | None:
        """The most that it held for so long or longer; ``None`` if it filled its memory in it, or
        if what it holds changes."""
        since = self._since_seconds
        if since is None or now_seconds - since < for_seconds:
            return None
        return self._most_bytes


def level_from(curve: MissRatioCurve, from_bytes: int, size_bytes: int) -> MissRatioCurve:
    """The curve of a server that misses as often with ``from_bytes`` as with ``size_bytes``, which
    it has: what it does not use, or would not, keeps no key."""
    level = float(curve.miss_ratio(size_bytes))
    below = curve.sizes_bytes < from_bytes
    end_bytes = max(float(curve.sizes_bytes[-1]), from_bytes + 1.0)
    return MissRatioCurve(
        np.append(curve.sizes_bytes[below], (float(from_bytes), end_bytes)),
        np.append(np.maximum(curve.miss_ratios[below], level), (level, level)),
    )
