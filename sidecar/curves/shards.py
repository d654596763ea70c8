"""SHARDS estimates stack distances of all objects from spatially sampled ones.

It follows Waldspurger, Park, Garthwaite and Ahmad, *Efficient MRC Construction with SHARDS*,
FAST'15.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sidecar.config.sampling import LIVE_OBJECTS
from sidecar.curves.lru_stack import COLD, UNSEEN_HIT, IntArray, LruStack
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.pinned_objects import PinnedObjects
from sidecar.curves.references import (
    Accesses,
    FloatArray,
    References,
)
from sidecar.curves.whole_databases import WholeDatabases
from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import (
    FLAG_SIZE_ALLOCATED,
    FLAG_SIZE_KNOWN,
    SOURCE_PATCH,
    Operation,
)

# What allocators take for so many bytes: jemalloc, that of Redis and Valkey, or the C library.
_SMALL_BYTES, _SMALL_STEP_BYTES = 128, 16


def allocated_bytes(
    sizes_bytes: npt.NDArray[np.int64], is_libc: bool = False
) -> npt.NDArray[np.int64]:
    """Return each size rounded up to jemalloc's class: multiples of 16 bytes up to 128, then four
    to each doubling (its manual, "Implementation notes"). For a server that was built with the C
    library's (``is_libc``), round up to what glibc gives. That is 24 bytes, and 16 more each time,
    of which it keeps 8 before them for itself. Shape as given.

    A record tells key and value as one size, and they are allocated apart: the value is mostly the
    larger part. Without the classes, what is learnt of large objects would be added to small ones.
    """
    if is_libc:
        return np.asarray(np.maximum(24, (sizes_bytes + 7) // 16 * 16 + 8))
    octave = np.frexp(np.maximum(sizes_bytes, _SMALL_BYTES + 1) - 1)[1] - 1
    step = np.where(sizes_bytes <= _SMALL_BYTES, _SMALL_STEP_BYTES, 2 ** (octave - 2))
    return np.asarray(-(-sizes_bytes // step) * step)


# Lowering the threshold costs a sort: one in so many live objects goes at once.
_SHED_SHARE = 16
# No mean is taken of fewer objects.
_FEWEST_HELD = 32
_READ_MISS, _WRITE, _FLUSH = map(int, (Operation.READ_MISS, Operation.WRITE, Operation.FLUSH))


class Shards:
    """Turns samples of one server into stack distances, in constant memory.

    ``live_objects`` bounds the objects in the stack (fixed-size SHARDS): when there are more, the
    threshold falls, and those whose hash is no longer below it leave. ``None`` is the fixed rate
    R = T / P of equation (8.7): the server's threshold rules, and memory grows with the keys.

    Attributes:
        threshold: T in force here, at most the server's; ``None`` before the first batch.
        modulus: P.
        volatile: for ``volatile-*``: keys without a TTL are never evicted, so they are *pinned*.
            Only the memory that they leave is a cache. A read's distance includes the bytes that
            were pinned when it came. A read of a pinned object is a hit where all of them fit.
        pinned: what is known of the pinned objects.
        simulation: caches that see the same accesses, for policies that are not stack
            algorithms.
    """

    def __init__(self, live_objects: int | None = LIVE_OBJECTS) -> None:
        if live_objects is not None and live_objects < _SHED_SHARE:
            raise ValueError(f"live_objects must be at least {_SHED_SHARE}, not {live_objects}")
        self.live_objects = live_objects
        self.stack = LruStack()
        self.threshold: int | None = None
        self.is_libc = False  # what allocates the server's memory
        self.modulus = 1
        self._volatile = False
        self.pinned = PinnedObjects()
        self.simulation: MiniatureSimulation | None = None
        self._salt_id = 0
        self._whole_databases = WholeDatabases()

    def __len__(self) -> int:
        """Count the live objects."""
        return len(self.stack) + len(self.pinned)

    @property
    def rate(self) -> float:
        """Return R = T / P in force here; 0 before the first batch."""
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
        """Return ``PinnedObjects.bytes_at`` the rate; 0 unless the policy is ``volatile-*``."""
        return self.pinned.bytes_at(self.rate) if self.volatile else 0.0

    def know_pinned(self, count: int) -> None:
        """The server has just counted ``count`` keys that it never evicts."""
        self.pinned.know(count, self.rate)

    def take(
        self,
        batch: Batch,
        overhead_bytes: int = 0,
        default_bytes: int = 1,
        resident_bytes: float = 0.0,
    ) -> References:
        """Take one batch without swaps, see ``DatabaseNumbers``. Raises TooManyFlushesError.

        ``overhead_bytes`` is added to each known size; an object of unknown size counts
        ``default_bytes``. ``resident_bytes`` is what the server can hold now: a hit on an object
        that the stack does not know yet lies between what the stack has seen since and that.
        """
        self.pinned.default_bytes = default_bytes
        self.notice_change(batch)
        assert self.threshold is not None
        records, ids, operations, times_us = self._taken(batch)
        rate = self.rate
        accesses = _accesses(records, ids, operations, overhead_bytes, batch.source, self.is_libc)
        parts: list[tuple[IntArray, IntArray, FloatArray]] = []
        start = 0
        for place in [*np.flatnonzero(operations >= _FLUSH).tolist(), len(records)]:
            part = accesses.part(start, place)
            now_seconds = batch.last_time_us // 1_000_000
            if len(part.keys) or not parts:
                self._whole_databases.fill(part.keys)
                parts.append(self._access(part, default_bytes, now_seconds))
            if place < len(records):
                self._whole_databases.take(records[place], self)
            start = place + 1
        above, own, beside = parts[0]
        if len(parts) > 1:
            above, own, beside = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        distances = above / (rate or 1) + own + beside
        unseen = above == UNSEEN_HIT
        if np.any(unseen):
            least = self.stack.total_weight / rate + beside[unseen]
            distances[unseen] = (least + np.maximum(least, resident_bytes)) / 2
        distances[above == COLD] = np.inf
        self.shed()
        reads = ids[operations <= _READ_MISS]
        unseen_hits = int(np.count_nonzero(unseen))
        return References(distances, reads, records, times_us, operations, ids, rate, unseen_hits)

    def _taken(
        self, batch: Batch
    ) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint64], npt.NDArray[np.uint8], FloatArray]:
        """Return the records that are sampled here, and their objects, operations and times."""
        columns = batch.records, batch.ids, batch.operations, batch.times_us
        if self.threshold == batch.threshold:
            return columns
        places = batch.records["hash"] & np.uint64(self.modulus - 1)
        taken = (places < np.uint64(self.threshold or 0)) | (batch.operations >= _FLUSH)
        records, ids, operations, times_us = columns
        return records[taken], ids[taken], operations[taken], times_us[taken]

    def _access(
        self, part: Accesses, default_bytes: int, now_seconds: int
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return what ``LruStack.access`` does for each read, and the bytes that are pinned. The
        stack and the simulation do not see a pinned read, and only learn that the object is not
        there. Nothing lies above it, and it takes nothing itself."""
        taken = self.pinned.take(part, self.rate) if self.volatile else None
        if taken is not None:
            part = replace(part, operations=taken.operations)
        if self.simulation is not None and self.rate:
            self.simulation.access(part, default_bytes, now_seconds, self.rate)
        above, own = self.stack.access(part.keys, part.operations, part.weights, default_bytes)
        if taken is None:
            return above, own, np.zeros(len(above))
        all_above = np.zeros(len(taken.is_pinned), dtype=np.int64)
        all_own = all_above.copy()
        all_above[~taken.is_pinned], all_own[~taken.is_pinned] = above, own
        return all_above, all_own, taken.beside_bytes

    def sample(self, batch: Batch, threshold: int) -> None:
        """Take what this batch samples, and of that what is below ``threshold``, before any was
        taken."""
        self.modulus, self._salt_id, self.threshold = batch.modulus, batch.salt_id, threshold

    def notice_change(self, batch: Batch) -> None:
        """Another salt or P makes other objects the sample; a lower T keeps a part of them. A
        higher T changes nothing: objects that were not sampled have no history here."""
        self._whole_databases.begin()
        if self.threshold is None or (batch.modulus, batch.salt_id) != (
            self.modulus,
            self._salt_id,
        ):
            self.clear()
            self.threshold = batch.threshold
            self.modulus, self._salt_id = batch.modulus, batch.salt_id
            self.fit_simulation()
        elif batch.threshold < self.threshold:
            self._lower(batch.threshold)

    def shed(self) -> None:
        """Lower the threshold where there are too many objects."""
        if self.live_objects is None or len(self) <= self.live_objects:
            return
        keep = self.live_objects - self.live_objects // _SHED_SHARE
        mask = self.modulus - 1
        lows = sorted(key & mask for keys in (self.stack, self.pinned.weights) for key in keys)
        self._lower(lows[keep])

    def _lower(self, threshold: int) -> None:
        self.threshold = threshold
        mask = self.modulus - 1
        self.stack.forget([key for key in self.stack if key & mask >= threshold])
        self.pinned.sample_only(lambda key: key & mask < threshold)
        self.fit_simulation()
        if self.simulation is not None:
            self.simulation.keep_only(lambda key: key & mask < threshold)

    def simulate(
        self, simulation: MiniatureSimulation, object_bytes: int, now_seconds: int
    ) -> None:
        """Let a new simulation see accesses from now on. It begins with the objects that are known,
        each as large as the mean: empty caches would miss what the server does not."""
        self.simulation = simulation
        self.fit_simulation()
        keys = np.fromiter(self.stack, np.uint64)
        if self.rate:
            writes = np.full(len(keys), Operation.WRITE, np.uint8)
            zeros = np.zeros(len(keys), np.int64)
            known = Accesses(keys, writes, zeros, zeros.astype(np.uint8), zeros == 0)
            simulation.access(known, object_bytes, now_seconds, self.rate)

    def fit_simulation(self) -> None:
        """Give the simulated caches the sizes that the present rate and pinned objects leave."""
        if self.simulation is not None:
            self.simulation.set_rate(self.rate, self.pinned_bytes)

    def clear(self) -> None:
        """Forget all objects: the server is empty."""
        self.stack.clear()
        self.pinned.keep_only(lambda _: False)
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
        self.prune_simulation()

    def prune_simulation(self) -> None:
        """Drop objects of the simulated caches that the stack does not have."""
        if self.simulation is not None:
            stack = self.stack
            self.simulation.keep_only(lambda key: key in stack)

    def mean_held_weight(self) -> float | None:
        """Return the mean bytes of the sampled objects that the server holds; ``None`` if they are
        fewer than ``_FEWEST_HELD``."""
        count, weight = self.stack.held()
        count += len(self.pinned)
        weight += self.pinned.total_weight
        return weight / count if count >= _FEWEST_HELD else None

    def first_share(self) -> float:
        """Return what held sampled objects weighed when the server came to hold them, as a share of
        what they weigh now. It is 1 where fewer than 32 are known from the start."""
        count, first, weight = self.stack.grown()
        return first / weight if count >= _FEWEST_HELD else 1.0

    def reweigh(self, more_bytes: int) -> None:
        """Add ``more_bytes`` (or take, if negative) to each object."""
        self.stack.add_weight(more_bytes)
        self.pinned.add_weight(more_bytes)
        if self.simulation is not None:
            self.simulation.add_weight(more_bytes)


def _accesses(
    records: npt.NDArray[np.void],
    ids: npt.NDArray[np.uint64],
    operations: npt.NDArray[np.uint8],
    overhead_bytes: int,
    source: int,
    is_libc: bool,
) -> Accesses:
    flags = np.ascontiguousarray(records["flags"])
    known = (flags & FLAG_SIZE_KNOWN) != 0
    told = records["size_bytes"].astype(np.int64)
    sizes = np.where((flags & FLAG_SIZE_ALLOCATED) != 0, told, allocated_bytes(told, is_libc))
    weights = np.maximum(sizes + overhead_bytes, 1) * known
    # The module cannot look at each key that is read (redis_patch/MODULE.md).
    ttl_known = known | (operations == _WRITE) | (source == SOURCE_PATCH)
    return Accesses(ids, operations, weights, flags, ttl_known)
