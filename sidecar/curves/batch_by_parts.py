"""Lets each part of a monitor in turn take a batch of samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sidecar.curves.backend_latency import BackendLatency
from sidecar.curves.calibration import FIRST_OBJECT_BYTES, Calibration
from sidecar.curves.lifetimes import Lifetimes
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.references import References
from sidecar.curves.shards import Shards
from sidecar.samples.batch import Batch


class Parts(NamedTuple):
    """Holds the parts of one server's monitor that take batches, and what they need.

    Attributes:
        depth_bytes: room for keys at the server's present size.
        resident_bytes: the same while it evicts, else ``inf``.
    """

    shards: Shards
    lifetimes: Lifetimes
    counts: ReadCounts
    latency: BackendLatency
    calibration: Calibration
    depth_bytes: float
    resident_bytes: float

    @property
    def default_bytes(self) -> int:
        """Return what an object of unknown size is taken for."""
        return round(self.calibration.object_bytes or FIRST_OBJECT_BYTES)


class BatchReads(NamedTuple):
    """Holds the sampled reads of one batch, and hits of objects among them that the stack did not
    know. It also has what all reads that they stand for missed at the present size, and R in
    force."""

    reads: int
    unseen_hits: int
    missed: float
    rate: float


def references_of(shards: Shards, batch: Batch, parts: Parts) -> References:
    """Let ``shards`` take a batch, and return its references."""
    known = parts.calibration
    return shards.take(batch, known.overhead_bytes, parts.default_bytes, known.keys_bytes)


def take_by_parts(batch: Batch, parts: Parts) -> BatchReads:
    """Count one batch. ``CompiledBatch`` does the same in one call."""
    counts, lifetimes = parts.counts, parts.lifetimes
    parts.shards.notice_change(batch)  # what is no longer sampled leaves no holes by expiring
    parts.shards.expire(lifetimes.due(batch.first_time_us / 1e6))
    references = references_of(parts.shards, batch, parts)
    corrections = None  # of what TTLs change in the distances
    if len(lifetimes) or np.any(references.have_ttl):
        corrections = lifetimes.take(references.timed_accesses(), parts.resident_bytes)
    parts.latency.take(batch)
    reads, missed = len(references.distances_bytes), 0.0
    if references.rate > 0:
        weight = 1 / references.rate
        counts.histogram.add(references.distances_bytes, weight, references.ids)
        missed = counts.lost(references.distances_bytes, parts.depth_bytes)
        if corrections is not None:
            for (sizes, ids), sign in zip(corrections.moves(), (1, -1), strict=True):
                counts.histogram.add(sizes, sign * weight, ids)
                missed += sign * counts.lost(sizes, parts.depth_bytes)
        missed *= weight
    return BatchReads(reads, references.unseen_hits, missed, references.rate)
