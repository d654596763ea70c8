"""Backend latency, as the time from a sampled miss to the fill of the same key."""

from __future__ import annotations

from sidecar.curves.fills import Counted, Fills
from sidecar.samples.batch import Batch

LONGEST_SECONDS = 60.0
# A write that comes later on average is no fill: some client overwrites the key by chance.
_LONGEST_MEAN_SECONDS = 10.0
MOST_PENDING = 4096
_FEWEST_FILLS = 30
_FEWEST_FILL_RATIO = 0.2


class BackendLatency:
    """Estimates bd of equation (8.2) for look-aside clients: read, miss, ask the backend, write.

    What it measures, and where that differs from the latency that a user waits for:

    * *From the first miss to the first write.* Later readers of the same key wait less.
    * *Queues count.* Time that a client spends before asking, or between the answer and the write
      (a connection pool, a batch of writes), is in it: biased upward.
    * *Writes that come late.* Where they come after more than 10 s on average, they are no fills:
      keys are written through, and overwritten by chance. Then nothing is measured.
    * *A write from elsewhere*, such as an update of a key that was just missed, looks like a fill:
      biased downward where keys are often written.
    * *What is never filled* within a minute is left out, and says nothing (backends that answer
      "no such object" may be faster): ``fill_ratio`` tells how much that is.
    * *Resolution.* That of the server's clock: below a millisecond, with the module some ms.

    Memory: a bounded number of misses wait for their fill.

    Attributes:
        fills: pairs misses with writes.
    """

    def __init__(self) -> None:
        self.fills = Fills(LONGEST_SECONDS * 1e6, MOST_PENDING)
        self._fills = 0.0
        self._unfilled = 0.0
        self._seconds = 0.0

    def take(self, batch: Batch) -> None:
        """Take the next batch of one server."""
        self.add(self.fills.take(batch.ids, batch.operations, batch.times_us, batch.last_time_us))

    def add(self, counted: Counted) -> None:
        """Take what has been counted of the next batch."""
        self._fills += counted.fills
        self._unfilled += counted.unfilled
        self._seconds += counted.seconds

    def decay(self, factor: float) -> None:
        """Let what was seen so far count ``factor`` times as much."""
        self._fills *= factor
        self._unfilled *= factor
        self._seconds *= factor

    def clear_pending(self) -> None:
        """Forget the misses that wait, for example as the server has restarted."""
        self.fills.clear()

    @property
    def fill_ratio(self) -> float | None:
        """Share of the misses that were filled; ``None`` if none is decided yet."""
        decided = self._fills + self._unfilled
        fills = self._fills if self._seconds <= _LONGEST_MEAN_SECONDS * self._fills else 0.0
        return fills / decided if decided else None

    @property
    def mean_seconds(self) -> float | None:
        """Mean latency; ``None`` with fewer than 30 fills, or when fewer than one miss in five is
        filled (the others would have to be guessed)."""
        ratio = self.fill_ratio
        if self._fills < _FEWEST_FILLS or ratio is None or ratio < _FEWEST_FILL_RATIO:
            return None
        return self._seconds / self._fills
