"""Flushes and swaps of whole databases: what they do to the objects of a sample."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidecar.curves.compiled_stack import CompiledStack
from sidecar.curves.lru_stack import LruStack
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.pinned_objects import PinnedObjects
from sidecar.samples.batch import DB_SHIFT, HASH_MASK
from sidecar.samples.wire_format import UNKNOWN_DB, Operation


class Sample(Protocol):
    """What ``Shards`` keeps of a server's objects."""

    stack: LruStack | CompiledStack
    pinned: PinnedObjects
    simulation: MiniatureSimulation | None

    def clear(self) -> None:
        """Forget all."""

    def expire(self, keys: list[int]) -> None:
        """Take objects out; they leave holes."""


# A walk takes about a microsecond for each object: half a second at once, and a fifth of a core.
_MOST_WALKED_OBJECTS = 500_000
_WALKED_OBJECTS_A_SECOND = 200_000


class WholeDatabases:
    """Takes such records. Each walks all objects, which takes milliseconds, and a client may empty
    or swap databases thousands of times a second. What is known to have no object is passed over;
    where there is more to walk than the other servers can wait for, the sample is forgotten.

    Attributes:
        forgotten: how often.
    """

    def __init__(self) -> None:
        self.forgotten = 0
        self._empty: set[int] = set()
        self._left_objects = float(_MOST_WALKED_OBJECTS)
        self._counted_at = time.monotonic()

    def _may_walk(self, sample: Sample) -> bool:
        """Whether there is time for it; if not, the sample is empty now."""
        now = time.monotonic()
        more = (now - self._counted_at) * _WALKED_OBJECTS_A_SECOND
        self._left_objects = min(_MOST_WALKED_OBJECTS, self._left_objects + more)
        self._left_objects -= len(sample.stack) + len(sample.pinned)
        self._counted_at = now
        if self._left_objects >= 0:
            return True
        self._left_objects = 0.0
        self.forgotten += 1
        self.begin()
        sample.clear()
        return False

    def begin(self) -> None:
        """Nothing is known of what was put in before."""
        self._empty.clear()

    def fill(self, keys: npt.NDArray[np.uint64]) -> None:
        """Objects that are accessed, by their identities, shape (n,)."""
        if self._empty:
            self._empty.difference_update((keys >> np.uint64(DB_SHIFT)).tolist())

    def take(self, record: np.void, sample: Sample) -> None:
        """One record, of a flush or a swap."""
        db = int(record["db"])
        if record["operation"] == Operation.SWAP:
            self._swap(db, int(record["size_bytes"]) & UNKNOWN_DB, sample)
        elif db == UNKNOWN_DB:
            sample.clear()
        else:
            # What the sampler cannot place may well be in this db.
            self._empty_out({db, UNKNOWN_DB}, sample)

    def _empty_out(self, gone: set[int], sample: Sample) -> None:
        if gone <= self._empty or not self._may_walk(sample):
            return
        self._empty |= gone
        sample.expire([key for key in sample.stack if key >> DB_SHIFT in gone])
        sample.pinned.keep_only(lambda key: key >> DB_SHIFT not in gone)
        if sample.simulation is not None:
            sample.simulation.keep_only(lambda key: key >> DB_SHIFT not in gone)

    def _swap(self, db: int, other: int, sample: Sample) -> None:
        turn = {db: other, other: db}
        if turn.keys() <= self._empty or not self._may_walk(sample):
            return
        bits = int(HASH_MASK)
        names = {
            key: key & bits | turn[key >> DB_SHIFT] << DB_SHIFT
            for keys in (sample.stack, sample.pinned.weights)
            for key in keys
            if key >> DB_SHIFT in turn
        }
        if names:
            self._empty -= turn.keys()
        else:
            self._empty |= turn.keys()
        sample.stack.rename(names)
        sample.pinned.rename(names)
        if sample.simulation is not None:
            # Two dbs swapped within a simulated cache: rare enough to begin again.
            sample.simulation.keep_only(lambda key: key >> DB_SHIFT not in turn)
