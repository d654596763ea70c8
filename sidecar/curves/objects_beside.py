"""What a monitor keeps of objects beside its stack has a bound, whatever a sampler says."""

from __future__ import annotations

from sidecar.config.sampling import LIVE_OBJECTS
from sidecar.curves.lifetimes import Lifetimes
from sidecar.curves.shards import Shards

# So many records for each live object bring at most as many objects.
RECORDS_PER_OBJECT = 4


class ObjectsBeside:
    """Prunes lifetimes and simulated caches to the objects of the stack, after so many records
    that they may have become many. An observation prunes them as well, but may be an hour away."""

    def __init__(self, live_objects: int | None) -> None:
        self._most_records = RECORDS_PER_OBJECT * (live_objects or LIVE_OBJECTS)
        self._records = 0

    def take(self, records: int, shards: Shards, lifetimes: Lifetimes) -> None:
        """So many more have been taken."""
        self._records += records
        if self._records > self._most_records:
            self.prune(shards, lifetimes)
            shards.prune_simulation()

    def prune(self, shards: Shards, lifetimes: Lifetimes) -> None:
        """Forget lifetimes of objects that are not in the stack."""
        lifetimes.keep_only(shards.stack)
        self._records = 0
