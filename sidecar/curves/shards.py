"""SHARDS: stack distances of all objects, estimated from spatially sampled ones.

After Waldspurger, Park, Garthwaite and Ahmad, *Efficient MRC Construction with SHARDS*, FAST'15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.curves.lru_stack import COLD, UNSEEN_HIT, IntArray, LruStack
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.samples.batch import (
    FLAG_SIZE_KNOWN,
    FLAG_TTL,
    SOURCE_PATCH,
    UNKNOWN_DB,
    Batch,
    Operation,
)

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
        ids: shape (n,), u64 identities of the objects, see ``object_ids``.
        records: all records that were taken, of which the reads are n.
        rate: R in force: each read stands for 1 / R reads.
        unseen_hits: reads among them whose object the server had and the stack did not know.
    """

    distances_bytes: FloatArray
    ids: npt.NDArray[np.uint64]
    records: npt.NDArray[np.void]
    rate: float
    unseen_hits: int


def object_ids(records: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """Identity of each record's object: the db above the low 48 bits of the hash, which hold the
    bits that sampling looks at."""
    return np.asarray(
        (records["hash"] & _HASH_MASK) | (records["db"].astype(np.uint64) << np.uint64(_DB_SHIFT))
    )


@dataclass(frozen=True, eq=False)
class _Accesses:
    """Columns of records between two flushes, shapes (n,); weights are 0 where unknown.

    ``ttl_known``: no TTL means that the object has none, and not that nobody has looked.
    """

    keys: list[int]
    operations: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
    ttl_known: npt.NDArray[np.bool_]

    def part(self, start: int, end: int) -> _Accesses:
        part = slice(start, end)
        return _Accesses(
            self.keys[part],
            self.operations[part],
            self.weights[part],
            self.flags[part],
            self.ttl_known[part],
        )


@dataclass
class _SimulatedAccesses:
    """The same as plain lists."""

    keys: list[int]
    operations: list[int]
    weights: list[int]


class Shards:
    """Turns samples of one server into stack distances, in constant memory.

    ``live_objects`` bounds the objects in the stack (fixed-size SHARDS): when there are more, the
    threshold falls, and those whose hash is no longer below it leave. ``None`` is the fixed rate
    R = T / P of equation (8.7): the server's threshold rules, and memory grows with the keys.

    Attributes:
        threshold: T in force here, at most the server's; ``None`` before the first batch.
        modulus: P.
        volatile: for ``volatile-lru``: keys without a TTL are never evicted, so they are *pinned*.
            Only the memory that they leave is a cache: a read's distance includes the bytes that
            were pinned when it came, and a read of a pinned object is a hit where all of them fit.
        pinned: weights of the pinned objects, by key.
        simulation: caches that shall see the same accesses, for policies that are no stack.
    """

    def __init__(self, live_objects: int | None = 8192) -> None:
        if live_objects is not None and live_objects < _SHED_SHARE:
            raise ValueError(f"live_objects must be at least {_SHED_SHARE}, not {live_objects}")
        self.live_objects = live_objects
        self.stack = LruStack()
        self.threshold: int | None = None
        self.modulus = 1
        self._volatile = False
        self.pinned: dict[int, int] = {}
        self._pinned_weight = 0
        self._pinned_least = 0.0
        self._pinned_scale = 1.0
        self._default_bytes = 1
        self.simulation: MiniatureSimulation | None = None
        self._salt_id = 0

    def __len__(self) -> int:
        """Live objects."""
        return len(self.stack) + len(self.pinned)

    @property
    def rate(self) -> float:
        """R = T / P in force here; 0 before the first batch."""
        return (self.threshold or 0) / self.modulus

    @property
    def volatile(self) -> bool:
        return self._volatile

    @volatile.setter
    def volatile(self, volatile: bool) -> None:
        self._volatile = volatile
        if not volatile:
            self.know_pinned(0)

    @property
    def pinned_bytes(self) -> float:
        """Estimate for all pinned objects, sampled or not, as of now.

        As many as the server last counted (``know_pinned``), less those that were seen to leave;
        more as soon as more have been seen. Without any that were seen, each is of the mean size.
        """
        seen = len(self.pinned)
        if not seen:
            return max(0.0, self._pinned_least) * self._default_bytes if self.volatile else 0.0
        count = max(self._pinned_least, self._pinned_scale * seen / self.rate)
        return count * self._pinned_weight / seen

    def know_pinned(self, count: int) -> None:
        """The server has just counted ``count`` keys that it never evicts."""
        if not count:
            self._pin_only({})
        seen = len(self.pinned) / self.rate if self.pinned else 0.0
        self._pinned_least = float(count)
        # Fewer than seen: more of them happened to be sampled than their share.
        self._pinned_scale = min(1.0, count / seen) if seen else 1.0

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
        self._default_bytes = default_bytes
        self._notice_change(batch)
        assert self.threshold is not None
        sampled = (batch.records["hash"] & np.uint64(self.modulus - 1)) < np.uint64(self.threshold)
        records = batch.records[sampled | (batch.records["operation"] >= Operation.FLUSH)]
        rate = self.rate
        ids = object_ids(records)
        operations = records["operation"]
        known = (records["flags"] & FLAG_SIZE_KNOWN) != 0
        weights = np.maximum(records["size_bytes"].astype(np.int64) + overhead_bytes, 1) * known
        # The module cannot look at each key that is read (redis_patch/MODULE.md).
        ttl_known = known | (operations == Operation.WRITE) | (batch.source == SOURCE_PATCH)
        accesses = _Accesses(ids.tolist(), operations, weights, records["flags"], ttl_known)
        access = self._access_volatile if self.volatile else self._access
        parts: list[tuple[IntArray, IntArray, FloatArray]] = []
        start = 0
        for place in [*np.flatnonzero(operations >= Operation.FLUSH).tolist(), len(records)]:
            part = accesses.part(start, place)
            if self.simulation is not None and rate:
                lists = _SimulatedAccesses(
                    part.keys, part.operations.tolist(), part.weights.tolist()
                )
                self.simulation.access(lists, default_bytes, batch.last_time_us // 1_000_000, rate)
            parts.append(access(part, default_bytes))
            if place < len(records):
                self._take_whole_db(records[place])
            start = place + 1
        above, own, beside = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        distances = above / (rate or 1) + own + beside
        unseen = above == UNSEEN_HIT
        if np.any(unseen):
            least = self.stack.total_weight / rate + beside[unseen]
            distances[unseen] = (least + np.maximum(least, resident_bytes)) / 2
        distances[above == COLD] = np.inf
        if self.live_objects is not None and len(self) > self.live_objects:
            self._shed(self.live_objects - self.live_objects // _SHED_SHARE)
        reads = ids[operations <= Operation.READ_MISS]
        return References(distances, reads, records, rate, int(np.count_nonzero(unseen)))

    def _access(self, part: _Accesses, default_bytes: int) -> tuple[IntArray, IntArray, FloatArray]:
        """For each read what ``LruStack.access`` returns, and the bytes that are pinned."""
        above, own = self.stack.access(part.keys, part.operations, part.weights, default_bytes)
        return above, own, np.zeros(len(above))

    def _access_volatile(
        self, part: _Accesses, default_bytes: int
    ) -> tuple[IntArray, IntArray, FloatArray]:
        pinned = self.pinned
        operations = part.operations.copy()
        read_is_pinned = []
        beside: list[float] = []
        beside_now = self.pinned_bytes
        # A pinned read is none for the stack, which only learns that the object is not there.
        for place, (key, operation, weight, has_ttl, ttl_known) in enumerate(
            zip(
                part.keys,
                part.operations.tolist(),
                part.weights.tolist(),
                (part.flags & FLAG_TTL != 0).tolist(),
                part.ttl_known.tolist(),
                strict=True,
            )
        ):
            is_there = operation in (Operation.READ_HIT, Operation.WRITE)
            is_pinned = is_there and not has_ttl and (ttl_known or key in pinned)
            if is_pinned:
                before = pinned.get(key)
                if before is None or (weight and weight != before):
                    pinned[key] = weight or default_bytes
                    self._pinned_weight += pinned[key] - (before or 0)
                    beside_now = self.pinned_bytes
                operations[place] = Operation.DELETE
            elif operation != Operation.EVICTION and key in pinned:
                self._pinned_weight -= pinned.pop(key)
                self._pinned_least -= self._pinned_scale / self.rate
                beside_now = self.pinned_bytes
            if operation <= Operation.READ_MISS:
                read_is_pinned.append(is_pinned)
                beside.append(beside_now)
        above = np.zeros(len(read_is_pinned), dtype=np.int64)
        own = above.copy()
        of_stack = ~np.array(read_is_pinned, dtype=bool)
        above[of_stack], own[of_stack] = self.stack.access(
            part.keys, operations, part.weights, default_bytes
        )
        return above, own, np.array(beside, dtype=np.float64)

    def _pin_only(self, pinned: dict[int, int]) -> None:
        """Replace what is pinned."""
        if self.pinned:
            # Their share of all leaves with them.
            self._pinned_least *= len(pinned) / len(self.pinned)
        self.pinned, self._pinned_weight = pinned, sum(pinned.values())

    def _notice_change(self, batch: Batch) -> None:
        """Another salt or P makes other objects the sample; a lower T keeps a part of them. A
        higher T changes nothing: objects that were not sampled have no history here."""
        if self.threshold is None or (batch.modulus, batch.salt_id) != (
            self.modulus,
            self._salt_id,
        ):
            self.clear()
            self.threshold = batch.threshold
            self.modulus, self._salt_id = batch.modulus, batch.salt_id
            if self.simulation is not None:
                self.simulation.set_rate(self.rate)
        elif batch.threshold < self.threshold:
            self._lower(batch.threshold)

    def _shed(self, keep: int) -> None:
        mask = self.modulus - 1
        lows = sorted(key & mask for keys in (self.stack, self.pinned) for key in keys)
        self._lower(lows[keep])

    def _lower(self, threshold: int) -> None:
        self.threshold = threshold
        mask = self.modulus - 1
        self.stack.forget([key for key in self.stack if key & mask >= threshold])
        pinned = {key: w for key, w in self.pinned.items() if key & mask < threshold}
        self.pinned, self._pinned_weight = pinned, sum(pinned.values())
        if self.simulation is not None:
            self.simulation.set_rate(self.rate)
            self.simulation.keep_only(lambda key: key & mask < threshold)

    def _take_whole_db(self, record: np.void) -> None:
        db = int(record["db"])
        if record["operation"] == Operation.FLUSH and db == UNKNOWN_DB:
            self.clear()
        elif record["operation"] == Operation.FLUSH:
            # What the sampler cannot place may well be in this db.
            gone = (db, UNKNOWN_DB)
            self.expire([key for key in self.stack if key >> _DB_SHIFT in gone])
            self._pin_only({k: w for k, w in self.pinned.items() if k >> _DB_SHIFT not in gone})
            if self.simulation is not None:
                self.simulation.keep_only(lambda key: key >> _DB_SHIFT not in gone)
        else:
            other = int(record["size_bytes"])
            turn = {db: other, other: db}
            bits = int(_HASH_MASK)
            names = {
                key: key & bits | turn[key >> _DB_SHIFT] << _DB_SHIFT
                for keys in (self.stack, self.pinned)
                for key in keys
                if key >> _DB_SHIFT in turn
            }
            self.stack.rename(names)
            self._pin_only({names.get(key, key): w for key, w in self.pinned.items()})
            if self.simulation is not None:
                # Two dbs swapped within a simulated cache: rare enough to begin again.
                self.simulation.keep_only(lambda key: key >> _DB_SHIFT not in turn)

    def clear(self) -> None:
        """Forget all objects: the server is empty."""
        self.stack.clear()
        self._pin_only({})
        if self.simulation is not None:
            self.simulation.keep_only(lambda _: False)

    def expire(self, keys: list[int]) -> None:
        """Remove objects from caches of every size; those that are not in the stack are passed
        over."""
        self.stack.delete([key for key in keys if key in self.stack])

    def forget_below(self, depth_bytes: float) -> None:
        """Drop objects that lie too deep for a cache of ``depth_bytes``: their next read is a
        miss at any size that matters, and their places are worth a higher rate."""
        self.stack.forget(self.stack.below(int(depth_bytes * self.rate)))
        if self.simulation is not None:
            stack = self.stack
            self.simulation.keep_only(lambda key: key in stack)

    def mean_weight_of_top(self, objects: float) -> float | None:
        """Mean bytes of the pinned and the most recent objects, as many as are sampled of
        ``objects``; ``None`` if fewer than 32 are."""
        weights = [*self.pinned.values(), *self.stack.weights_by_recency()]
        weights = weights[: round(objects * self.rate)]
        return sum(weights) / len(weights) if len(weights) >= 32 else None

    def reweigh(self, more_bytes: int) -> None:
        """Add ``more_bytes`` (or take, if negative) to each object."""
        self.stack.add_weight(more_bytes)
        self._pin_only({key: max(1, w + more_bytes) for key, w in self.pinned.items()})
