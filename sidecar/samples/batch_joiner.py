"""Joins consecutive batches of one server: each that is taken by itself costs the same again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import MAX_BATCH_RECORDS

# To decode and take a batch costs some 0.04 ms beside its samples: little beside this.
HOLD_SECONDS = 0.5
# One more of the server's small batches costs little beside so many.
_ENOUGH_RECORDS = MAX_BATCH_RECORDS // 2


def follows(batch: Batch, last: Batch) -> bool:
    """Whether it is the next message of the same server, sampled in the same way."""
    return (
        batch.sequence == last.sequence + 1
        and (batch.instance, batch.source) == (last.instance, last.source)
        and (batch.threshold, batch.modulus, batch.salt_id)
        == (last.threshold, last.modulus, last.salt_id)
        and batch.records.dtype == last.records.dtype
    )


def joined(batches: Sequence[Batch]) -> Batch:
    """Join batches that follow each other, shape (n >= 1,): the records of all, the counters of the
    last, the sequence of the first."""
    if len(batches) == 1:
        return batches[0]
    return replace(
        batches[-1],
        records=np.concatenate([batch.records for batch in batches]),
        sequence=batches[0].sequence,
        first_time_us=batches[0].first_time_us,
        last_time_us=max(batch.last_time_us for batch in batches),
        parts=tuple(batches),
    )


class BatchJoiner:
    """Holds one server's batches until they are many, or old; ``take`` gets them as one."""

    def __init__(
        self, take: Callable[[Batch], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._take = take
        self._now = now
        self._held: list[Batch] = []
        self._records = 0
        self._since_seconds = 0.0
        self._heard_at_seconds = now()

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the last batch, or since there could be one: who never tells is
        silent, too."""
        return self._now() - self._heard_at_seconds

    def add(self, batch: Batch) -> None:
        """Take the next batch."""
        self._heard_at_seconds = self._now()
        if self._held and (
            not follows(batch, self._held[-1])
            or self._records + len(batch.records) > MAX_BATCH_RECORDS
        ):
            self.give()
        if not self._held:
            self._since_seconds = self._heard_at_seconds
        self._held.append(batch)
        self._records += len(batch.records)
        if self._records >= _ENOUGH_RECORDS:
            self.give()

    @property
    def is_old(self) -> bool:
        """Whether it holds what came ``HOLD_SECONDS`` ago."""
        return bool(self._held) and self._now() - self._since_seconds >= HOLD_SECONDS

    def give(self) -> None:
        """Pass on what is held."""
        held, self._held, self._records = self._held, [], 0
        if held:
            self._take(joined(held))
