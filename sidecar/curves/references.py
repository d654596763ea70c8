"""Holds sampled records as the stack takes them, and the reads that result from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.curves.lifetimes import TimedAccesses
from sidecar.samples.wire_format import FLAG_TTL, FLAG_TTL_KNOWN

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class References:
    """Holds the sampled reads of one batch.

    Attributes:
        distances_bytes: shape (n,), the cache size from which the read is a hit; ``inf`` if it
            misses at any size.
        ids: shape (n,), u64 identities of the objects, see ``object_ids``.
        records: all records that were taken, of which the reads are n.
        times_us, operations, all_ids: of the records, see ``Batch``.
        rate: R in force: each read stands for 1 / R reads.
        unseen_hits: reads among them whose object the server had and the stack did not know.
    """

    distances_bytes: FloatArray
    ids: npt.NDArray[np.uint64]
    records: npt.NDArray[np.void]
    times_us: FloatArray
    operations: npt.NDArray[np.uint8]
    all_ids: npt.NDArray[np.uint64]
    rate: float
    unseen_hits: int

    @property
    def have_ttl(self) -> npt.NDArray[np.bool_]:
        """Tell which of the records have a TTL, shape (record_count,)."""
        return np.asarray((self.records["flags"] & FLAG_TTL) != 0)

    def timed_accesses(self) -> TimedAccesses:
        """Return the records for what follows expiries."""
        flags = self.records["flags"]
        left_seconds = self.records["ttl_ms"] / 1000
        left_seconds[(flags & FLAG_TTL_KNOWN) == 0] = np.nan
        left_seconds[~self.have_ttl] = np.inf
        return TimedAccesses(
            self.all_ids,
            self.operations,
            left_seconds,
            self.distances_bytes,
            self.times_us / 1e6,
        )


@dataclass(frozen=True, eq=False)
class Accesses:
    """Holds columns of records between two flushes, shapes (n,); weights are 0 where unknown.

    ``ttl_known``: no TTL means that the object has none, and not that nobody has looked.
    """

    keys: npt.NDArray[np.uint64]
    operations: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
    ttl_known: npt.NDArray[np.bool_]

    def part(self, start: int, end: int) -> Accesses:
        """Return the accesses from ``start`` up to, but not including, ``end``."""
        if end - start == len(self.keys):
            return self
        part = slice(start, end)
        return Accesses(
            self.keys[part],
            self.operations[part],
            self.weights[part],
            self.flags[part],
            self.ttl_known[part],
        )
