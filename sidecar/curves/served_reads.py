"""Tells what a server served, by its own counters and by its sampler's."""

from __future__ import annotations

from typing import NamedTuple

from sidecar.samples.batch import Batch
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.planning.quiet_servers import QUIET_READS

# A server that uses this share of its ``maxmemory`` is full.
FULL_RATIO = 0.97
# Whoever says more brings no plan into a form that the planner refuses.
MOST_INSERTED = 1e6
# One whose keys and bytes differ by no more from window to window does not fill.
_STEADY_RATIO = 0.05
# If the server counts less than this share of the reads that its sampler saw, and no more since its
# counters began, they began anew. By the share alone they would seem to where a load ends: what was
# sampled comes up to a tenth of a second after it was counted, perhaps in the next window.
_RESET_SHARE = 0.9
# The misses of fewer reads since a reset say nothing of all that were sampled.
_FEWEST_READS = 100
# One batch may stand for so many. A sampler sends at least one a second: this is a thousand times
# what a server can serve.
_MOST_BATCH_READS = 10**9


class ServedReads(NamedTuple):
    """Reads by their result, the objects that came in meanwhile and were not there before, and the
    writes."""

    hits: int
    misses: int
    inserted: int = 0
    written: int = 0

    @property
    def reads(self) -> int:
        """Return the hits and misses together."""
        return self.hits + self.misses

    @property
    def miss_ratio(self) -> float | None:
        """Return the share of misses; ``None`` without reads."""
        return self.misses / self.reads if self.reads else None

    @property
    def inserted_per_read(self) -> float | None:
        """Return what came in for each read, at most ``MOST_INSERTED``, as on any server; ``None``
        without reads."""
        return min(MOST_INSERTED, self.inserted / self.reads) if self.reads else None


def served_between(
    previous: ServerReading, reading: ServerReading, sampled_reads: float
) -> ServedReads:
    """Return what a process served between two readings; ``sampled_reads`` is what the sampler saw
    meanwhile. It is nothing if the counters began anew and too little was counted since."""
    hits = reading.keyspace_hits - previous.keyspace_hits
    misses = reading.keyspace_misses - previous.keyspace_misses
    counted = reading.keyspace_hits + reading.keyspace_misses
    fewer = hits + misses < _RESET_SHARE * sampled_reads
    if min(hits, misses) < 0 or (fewer and _RESET_SHARE * counted <= sampled_reads):
        # CONFIG RESETSTAT: since the last one there is less, but of one kind.
        if counted < _FEWEST_READS <= sampled_reads:
            return ServedReads(0, 0)
        hits, misses = reading.keyspace_hits, reading.keyspace_misses
        scale = max(1.0, sampled_reads / max(1, hits + misses))
        hits, misses = round(hits * scale), round(misses * scale)
    evicted = reading.evicted_keys - previous.evicted_keys
    # Below zero: its counters began anew, or keys were deleted.
    inserted = max(0, evicted + reading.keys - previous.keys)
    return ServedReads(hits, misses, inserted, max(0, reading.writes - previous.writes))


def read_rate(
    served: ServedReads, sampled_reads: float, seconds: float, remembered: float | None
) -> float:
    """Return the reads a second: ``remembered``, or else those of the last window. If a sampler
    tells nothing, the server's counters are all that is known."""
    if remembered is None or (not sampled_reads and served.reads >= QUIET_READS):
        return (served.reads or sampled_reads) / seconds
    return remembered


def is_full(reading: ServerReading) -> bool:
    """Whether a server uses as much of its ``maxmemory`` as one that evicts; never without one."""
    return reading.counted_bytes >= FULL_RATIO * reading.maxmemory_bytes > 0


def tells_of_its_size(previous: ServerReading, reading: ServerReading) -> bool:
    """Whether the misses between the readings are those of its ``maxmemory``. The server stood at
    one, and was full. Or it held as much as before all the time and did not fill the one that it
    had. One that fills misses what it will have soon."""
    if not previous.maxmemory_bytes or not reading.maxmemory_bytes:
        return False
    stays = is_as_much(previous.counted_bytes, reading.counted_bytes) and is_as_much(
        previous.keys, reading.keys
    )
    if previous.maxmemory_bytes == reading.maxmemory_bytes:
        return stays or (is_full(previous) and is_full(reading))
    return stays and not is_full(previous) and not is_full(reading)


def is_as_much(before: int, now: int) -> bool:
    """Whether the two differ by so little that nothing fills."""
    return abs(now - before) <= _STEADY_RATIO * before


def batch_reads(last: Batch | None, batch: Batch, sampled_reads: int, rate: float) -> float:
    """Return the reads that a batch stands for: by the sampler's count, less what went with lost
    batches. Of the first batch seen only its samples tell, at R."""
    if last is None and batch.sequence:
        return sampled_reads / rate if rate else 0.0
    reads, sampled = batch.seen_reads, batch.sampled
    if last is not None:
        reads -= last.seen_reads
        sampled -= last.sampled
    received = len(batch.records)
    share = received / sampled if sampled > received else 1.0
    return min(max(0, reads), _MOST_BATCH_READS) * share
