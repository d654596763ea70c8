"""SHARDS: stack distances of all objects, estimated from spatially sampled ones.

After Waldspurger, Park, Garthwaite and Ahmad, *Efficient MRC Construction with SHARDS*, FAST'15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.lru_stack import COLD, UNSEEN_HIT, LruStack
from sidecar.samples import FLAG_SIZE_KNOWN, UNKNOWN_DB, Batch, Operation

FloatArray = npt.NDArray[np.float64]

_DB_SHIFT = 48
_HASH_MASK = np.uint64((1 << _DB_SHIFT) - 1)
# Lowering the threshold costs a sort: one in so many live objects goes at once.
_SHED_SHARE = 16


@dataclass(frozen=True, eq=False)
class References:
    """Sampled reads of one batch.

    Attributes:
        distances_bytes: shape (n,), the cache size from which the read is a hit; ``inf`` if it
            misses at any size.
        groups: shape (n,), a number in [0, 256) for each object's key, independent of the
            sampling: splits the sample for error estimates.
        rate: R in force: each read stands for 1 / R reads.
    """

    distances_bytes: FloatArray
    groups: npt.NDArray[np.uint8]
    rate: float


class Shards:
    """Turns samples of one server into stack distances, in constant memory.

    ``live_objects`` bounds the objects in the stack (fixed-size SHARDS): when there are more, the
    threshold falls, and those whose hash is no longer below it leave. ``None`` is the fixed rate
    R = T / P of equation (8.7): the server's threshold rules, and memory grows with the keys.

    Attributes:
        threshold: T in force here, at most the server's; ``None`` before the first batch.
        modulus: P.
    """

    def __init__(self, live_objects: int | None = 8192) -> None:
        if live_objects is not None and live_objects < _SHED_SHARE:
            raise ValueError(f"live_objects must be at least {_SHED_SHARE}, not {live_objects}")
        self.live_objects = live_objects
        self.stack = LruStack()
        self.threshold: int | None = None
        self.modulus = 1
        self._salt_id = 0

    @property
    def rate(self) -> float:
        """R = T / P in force here; 0 before the first batch."""
        return (self.threshold or 0) / self.modulus

    def take(
        self,
        batch: Batch,
        overhead_bytes: int = 0,
        default_bytes: int = 1,
        resident_bytes: float = 0.0,
    ) -> References:
        """Take one batch.

        ``overhead_bytes`` is added to each known size; an object of unknown size counts
        ``default_bytes``. ``resident_bytes`` is what the server can hold now: a hit on an object
        that the stack does not know yet lies between what the stack has seen since and that.
        """
        self._notice_change(batch)
        assert self.threshold is not None
        records = batch.records
        hashes = records["hash"]
        sampled = (hashes & np.uint64(self.modulus - 1)) < np.uint64(self.threshold)
        of_whole_db = records["operation"] >= Operation.FLUSH
        rate = self.rate
        places = np.flatnonzero(of_whole_db)
        above: list[int] = []
        own: list[int] = []
        start = 0
        for place in [*places.tolist(), len(records)]:
            part = records[start:place][sampled[start:place]]
            more_above, more_own = self._access(part, overhead_bytes, default_bytes)
            above += more_above
            own += more_own
            if place < len(records):
                self._take_whole_db(records[place])
            start = place + 1
        reads = sampled & (records["operation"] <= Operation.READ_MISS)
        distances = np.array(above, dtype=np.float64)
        known = distances >= 0
        distances[known] = distances[known] / rate + np.array(own, dtype=np.float64)[known]
        unseen = distances == UNSEEN_HIT
        if np.any(unseen):
            least = self.stack.total_weight / rate
            distances[unseen] = (least + max(least, resident_bytes)) / 2
        distances[distances == COLD] = np.inf
        groups = ((hashes[reads] >> np.uint64(32)) & np.uint64(255)).astype(np.uint8)
        if self.live_objects is not None and len(self.stack) > self.live_objects:
            self._shed(self.live_objects - self.live_objects // _SHED_SHARE)
        return References(distances, groups, rate)

    def _access(
        self, records: npt.NDArray[np.void], overhead_bytes: int, default_bytes: int
    ) -> tuple[list[int], list[int]]:
        keys = (records["hash"] & _HASH_MASK) | (
            records["db"].astype(np.uint64) << np.uint64(_DB_SHIFT)
        )
        known = (records["flags"] & FLAG_SIZE_KNOWN) != 0
        weights = np.where(known, records["size_bytes"].astype(np.int64) + overhead_bytes, 0)
        return self.stack.access(
            keys.tolist(), records["operation"].tolist(), weights.tolist(), default_bytes
        )

    def _notice_change(self, batch: Batch) -> None:
        """Another salt or P makes other objects the sample; a lower T keeps a part of them. A
        higher T changes nothing: objects that were not sampled have no history here."""
        if self.threshold is None or (batch.modulus, batch.salt_id) != (
            self.modulus,
            self._salt_id,
        ):
            self.stack.clear()
            self.threshold = batch.threshold
            self.modulus, self._salt_id = batch.modulus, batch.salt_id
        elif batch.threshold < self.threshold:
            self._lower(batch.threshold)

    def _shed(self, keep: int) -> None:
        lows = sorted(key & (self.modulus - 1) for key in self.stack)
        self._lower(lows[keep])

    def _lower(self, threshold: int) -> None:
        self.threshold = threshold
        mask = self.modulus - 1
        self.stack.forget([key for key in self.stack if key & mask >= threshold])

    def _take_whole_db(self, record: np.void) -> None:
        db = int(record["db"])
        if record["operation"] == Operation.FLUSH:
            if db == UNKNOWN_DB:
                self.stack.clear()
            else:
                # What the sampler cannot place may well be in this db.
                self.stack.delete([k for k in self.stack if k >> _DB_SHIFT in (db, UNKNOWN_DB)])
        else:
            other = int(record["size_bytes"])
            turn = {db: other, other: db}
            hash_bits = int(_HASH_MASK)
            self.stack.rename(
                {
                    key: key & hash_bits | turn[key >> _DB_SHIFT] << _DB_SHIFT
                    for key in self.stack
                    if key >> _DB_SHIFT in turn
                }
            )

    def forget_below(self, depth_bytes: float) -> None:
        """Drop objects that lie too deep for a cache of ``depth_bytes``: their next read is a
        miss at any size that matters, and their places are worth a higher rate."""
        self.stack.forget(self.stack.below(int(depth_bytes * self.rate)))

    def mean_weight_of_top(self, objects: float) -> float | None:
        """Mean bytes of the most recent objects, as many as are sampled of ``objects``; ``None``
        if fewer than 32 are."""
        count = round(objects * self.rate)
        weights = self.stack.weights_by_recency()[:count]
        return sum(weights) / len(weights) if len(weights) >= 32 else None

    def reweigh(self, more_bytes: int) -> None:
        """Add ``more_bytes`` (or take, if negative) to each object."""
        self.stack.add_weight(more_bytes)
