"""Follows flushes and swaps of whole databases: what they do to the objects of a sample.

A client may do so thousands of times a second, and a batch has hundreds of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidecar.config.sampling import LIVE_OBJECTS
from sidecar.curves.lru_stack import LruStack
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.pinned_objects import PinnedObjects
from sidecar.samples.batch import DB_SHIFT, Batch
from sidecar.samples.batch_joiner import joined
from sidecar.samples.wire_format import UNKNOWN_DB, Operation

# Objects that the flushes of one batch may look at: some tens of milliseconds.
MOST_WALKED_OBJECTS = 8 * LIVE_OBJECTS


class TooManyFlushesError(ValueError):
    """Says that to follow the flushes would take longer than the other servers can wait."""


class DatabaseNumbers:
    """The keys of a database stay with its number here, whatever number the server gives it: a swap
    exchanges two of them, and touches no object."""

    def __init__(self) -> None:
        self._numbers = np.arange(UNKNOWN_DB + 1, dtype=np.uint16)
        self._has_swapped = False

    def numbered(self, batch: Batch) -> Batch:
        """Return a batch with our numbers, and without its swaps."""
        swaps = np.flatnonzero(batch.operations == Operation.SWAP).tolist()
        if not swaps and not self._has_swapped:
            return batch
        if batch.parts:
            return joined([self.numbered(part) for part in batch.parts])
        records = batch.records.copy()
        dbs, start = records["db"], 0
        for place in [*swaps, len(records)]:
            dbs[start:place] = self._numbers[dbs[start:place]]
            if place < len(records):
                self._swap(int(dbs[place]), int(records["size_bytes"][place]) & UNKNOWN_DB)
            start = place + 1
        return replace(batch, records=records[batch.operations != Operation.SWAP])

    def _swap(self, db: int, other: int) -> None:
        if UNKNOWN_DB not in (db, other):
            self._numbers[[db, other]] = self._numbers[[other, db]]
            self._has_swapped = True


class Sample(Protocol):
    """Describes what ``Shards`` keeps of a server's objects."""

    stack: LruStack
    pinned: PinnedObjects
    simulation: MiniatureSimulation | None

    def clear(self) -> None:
        """Forget all objects."""

    def expire(self, keys: list[int]) -> None:
        """Take objects out; they leave holes."""


class WholeDatabases:
    """Takes flushes. Each walks all objects, which takes milliseconds. So what is known to have no
    object is passed over, and in one batch they may walk so many."""

    def __init__(self) -> None:
        self._empty: set[int] = set()
        self._walked_objects = 0

    def begin(self) -> None:
        """Nothing is known of what was put in before."""
        self._empty.clear()
        self._walked_objects = 0

    def fill(self, keys: npt.NDArray[np.uint64]) -> None:
        """Take objects that are accessed, by their identities, shape (n,)."""
        if self._empty:
            self._empty.difference_update((keys >> np.uint64(DB_SHIFT)).tolist())

    def take(self, record: np.void, sample: Sample) -> None:
        """Take one record of a flush. Raises TooManyFlushesError."""
        db = int(record["db"])
        if db == UNKNOWN_DB:
            sample.clear()
        else:
            # Objects that the sampler cannot place may well be in this db.
            self._empty_out({db, UNKNOWN_DB}, sample)

    def _empty_out(self, gone: set[int], sample: Sample) -> None:
        if gone <= self._empty:
            return
        self._empty |= gone
        self._walked_objects += len(sample.stack) + len(sample.pinned)
        self._walked_objects += len(sample.simulation) if sample.simulation is not None else 0
        if self._walked_objects > MOST_WALKED_OBJECTS:
            raise TooManyFlushesError(
                f"it empties databases so often that {self._walked_objects:,} objects would have "
                "to be looked at at once"
            )
        sample.expire([key for key in sample.stack if key >> DB_SHIFT in gone])
        sample.pinned.keep_only(lambda key: key >> DB_SHIFT not in gone)
        if sample.simulation is not None:
            sample.simulation.keep_only(lambda key: key >> DB_SHIFT not in gone)
