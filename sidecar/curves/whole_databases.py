"""Flushes and swaps of whole databases: what they do to the objects of a sample."""

from __future__ import annotations

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


class WholeDatabases:
    """Takes such records. Each walks all objects, which takes milliseconds, and a client may empty
    a database thousands of times a second: what is known to have no object is passed over."""

    def __init__(self) -> None:
        self._empty: set[int] = set()

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
        if gone <= self._empty:
            return
        self._empty |= gone
        sample.expire([key for key in sample.stack if key >> DB_SHIFT in gone])
        sample.pinned.keep_only(lambda key: key >> DB_SHIFT not in gone)
        if sample.simulation is not None:
            sample.simulation.keep_only(lambda key: key >> DB_SHIFT not in gone)

    def _swap(self, db: int, other: int, sample: Sample) -> None:
        turn = {db: other, other: db}
        if turn.keys() <= self._empty:
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
