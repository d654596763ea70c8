"""Says how often a server would hit under other policies, by the samples that make its curve.

What evicts by recency, or at random, is bent from the same exact LRU. LFU is no bent LRU: small
caches of a few objects simulate it beside, and only by how much it differs from LRU *of the same
objects* is taken from them. So most of what so few objects are off by falls away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sidecar.curves.batch_by_parts import Parts, references_of
from sidecar.curves.decaying_counts import Remembered
from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.miniature_simulation import FloatArray, MiniatureSimulation
from sidecar.curves.miss_ratio_histogram import EDGES_BYTES
from sidecar.curves.object_groups import GROUP_SHIFT, GROUPS
from sidecar.curves.policies import SIMULATED_POLICIES, STACK_POLICIES, eviction_samples
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.sampled_eviction import MOST_SAMPLES
from sidecar.curves.shards import Shards
from sidecar.samples.batch import Batch
from sidecar.samples.batch_joiner import joined
from sidecar.samples.wire_format import MAX_BATCH_RECORDS, Operation
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve

_POLICY, _SAMPLES = "maxmemory-policy", "maxmemory-samples"
_OBJECTS = 1024
# Of the simulated caches, from the memory for keys that the server has.
_SIZES = np.array([0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 4.0])
_OWN = 4
# Batches that wait; an idle server sends one each second.
_MOST_WAITING = 64
# With fewer sampled reads the difference tells nothing.
_FEWEST_READS = 2_000
# A server whose size has changed by more than this gets other caches.
_SAME_SIZE = 1.05
# Redis' documentation calls ten samples very close to LRU.
_CLOSE_TO_LRU = 10
# How far differences between policies were off, beside real servers, at most
# (docs/research/measured.md, other policies): of keys that are evicted at random, and of others.
_AT_RANDOM_ERROR, _LEAST_ERROR = 0.02, 0.015
# Of where a size stands on a curve, which matters where it is steep.
_SIZE_ERROR = 0.03
# Of the groups' error.
_ERRORS = 2.0


class OtherPolicy(NamedTuple):
    """Holds what one other setting would make of a server.

    Attributes:
        setting, value: as in ``CONFIG SET``.
        curve: miss ratio over ``maxmemory``.
        least_error_ratio: how far its difference from the present curve may be off, where both
            are flat.
    """

    setting: str
    value: str
    curve: MissRatioCurve
    least_error_ratio: float

    def error_ratio(self, size_bytes: float) -> float:
        """Return how far it may be off at a size."""
        less, more = self.curve.miss_ratio(
            [size_bytes * (1 + by) for by in (-_SIZE_ERROR, _SIZE_ERROR)]
        )
        return self.least_error_ratio + float(less - more) / 2


class SimulatedLfu:
    """Simulates LFU beside a server that evicts otherwise, for its ``allkeys-*`` policies.

    Attributes:
        settings: by which it is simulated.
    """

    def __init__(self, settings: EvictionSettings, held_bytes: float) -> None:
        self.settings, self._held_bytes = settings, held_bytes
        self._sizes = _SIZES * held_bytes
        self._shards = Shards(_OBJECTS)
        self._simulation = MiniatureSimulation(self._sizes, settings)
        self._shards.simulation = self._simulation
        self._of_lru, self._reads = Remembered(GROUPS, len(_SIZES)), Remembered()
        self._sampled_reads = 0
        self._waiting: list[Batch] = []
        self._waiting_records, self._waiting_reads = 0, 0.0

    def is_for(self, settings: EvictionSettings, held_bytes: float) -> bool:
        """Whether it simulates these settings, with about so much memory for keys."""
        ratio = held_bytes / self._held_bytes
        return settings == self.settings and 1 / _SAME_SIZE <= ratio <= _SAME_SIZE

    def take(self, batch: Batch, parts: Parts, reads: float) -> None:
        """Take a batch that stands for so many reads. Only its share of the objects is kept, and
        counted when there are many: each time costs a third of a millisecond."""
        self._waiting_reads += reads
        few = self._few_of(batch)
        if not len(few.records):
            return
        if self._waiting and not _is_sampled_alike(few, self._waiting[-1]):
            self._count(parts)
        self._waiting.append(few)
        self._waiting_records += len(few.records)
        if self._waiting_records >= MAX_BATCH_RECORDS or len(self._waiting) == _MOST_WAITING:
            self._count(parts)

    def _few_of(self, batch: Batch) -> Batch:
        threshold = self._shards.threshold
        if threshold is None or threshold >= batch.threshold:
            return batch
        places = batch.records["hash"] & np.uint64(batch.modulus - 1)
        taken = (places < np.uint64(threshold)) | (batch.records["operation"] >= Operation.FLUSH)
        if batch.parts:
            ends = np.cumsum([len(one.records) for one in batch.parts])
            kept = np.split(batch.records[taken], np.searchsorted(np.flatnonzero(taken), ends[:-1]))
            parts = zip(batch.parts, kept, strict=True)
            return joined([replace(one, records=records) for one, records in parts])
        return replace(batch, records=batch.records[taken])

    def _count(self, parts: Parts) -> None:
        batch, self._waiting = joined(self._waiting), []
        self._reads.new += self._waiting_reads
        self._waiting_records, self._waiting_reads = 0, 0.0
        self._shards.is_libc = parts.shards.is_libc
        references = references_of(self._shards, batch, parts)
        self._sampled_reads += len(references.distances_bytes)
        if references.rate > 0:
            missed = references.distances_bytes[:, None] > self._sizes
            groups = (references.ids >> np.uint64(GROUP_SHIFT)) % np.uint64(GROUPS)
            np.add.at(self._of_lru.new, groups.astype(np.int64), missed / references.rate)

    def reweigh(self, more_bytes: int) -> None:
        """Add so much to each object, as ``Shards``."""
        self._shards.reweigh(more_bytes)

    def step(self, cycles: float) -> None:
        """Close a step, as ``ReadCounts`` does."""
        for one in (self._of_lru, self._reads, self._simulation.misses):
            one.step(cycles)
        self._shards.prune_simulation()

    def forget(self) -> None:
        """Forget all that was counted."""
        for one in (self._of_lru, self._reads, self._simulation.misses):
            one.forget()
        self._sampled_reads = 0

    def more_misses(self, length: int) -> tuple[FloatArray, FloatArray, float] | None:
        """Return depths in bytes, shape (k,), and by how much its miss ratio is above that of exact
        LRU there. Also the standard error of that at the server's own size, by the groups of
        objects. ``None`` while too little was read."""
        reads = float(self._reads.by(length))
        if self._sampled_reads < _FEWEST_READS or reads <= 0:
            return None
        more = (self._simulation.misses.by(length) - self._of_lru.by(length)) / reads
        error = np.sqrt(GROUPS) * more[:, _OWN].std(ddof=1)
        return self._sizes, more.sum(axis=0), float(error)


def _is_sampled_alike(one: Batch, other: Batch) -> bool:
    return (one.source, one.threshold, one.modulus, one.salt_id, one.records.dtype) == (
        *(other.source, other.threshold, other.modulus, other.salt_id),
        other.records.dtype,
    )


def other_policies(
    reading: ServerReading,
    counts: ReadCounts,
    lfu: SimulatedLfu | None,
    length: int,
    curve_of: Callable[[FloatArray, FloatArray], MissRatioCurve],
) -> tuple[OtherPolicy, ...]:
    """Return what other settings would make of a server.

    None lets keys be evicted that are not now: ``allkeys-*`` policies are beside such ones, and
    ``volatile-*`` ones beside theirs. ``length`` is the half-life that the present curve goes by;
    ``curve_of`` makes one of depths and miss ratios.
    """
    now = reading.maxmemory_policy
    scope, _, kind = now.partition("-")
    if now not in (*STACK_POLICIES, *SIMULATED_POLICIES):
        return ()
    samples = reading.maxmemory_samples
    found = []

    def add_by_samples(setting: str, value: str, by: int) -> None:
        curve = curve_of(*counts.miss_ratios_by_samples(length, by))
        off = _AT_RANDOM_ERROR if "random" in (kind, value.partition("-")[2]) else _LEAST_ERROR
        found.append(OtherPolicy(setting, value, curve, off))

    if kind != "lru":
        add_by_samples(_POLICY, f"{scope}-lru", min(samples, MOST_SAMPLES))
    elif eviction_samples(reading) < _CLOSE_TO_LRU:
        add_by_samples(_SAMPLES, str(_CLOSE_TO_LRU), _CLOSE_TO_LRU)
    if kind != "random":
        add_by_samples(_POLICY, f"{scope}-random", 1)
    if lfu is not None and (told := lfu.more_misses(length)) is not None:
        depths, more, error = told
        exact = counts.histogram.miss_ratios(length)
        ratios = np.interp(depths, EDGES_BYTES, exact) + more
        ratios = np.minimum.accumulate(np.clip(ratios, 0.0, 1.0))
        off = _LEAST_ERROR + _ERRORS * error
        found.append(OtherPolicy(_POLICY, f"{scope}-lfu", curve_of(depths, ratios), off))
    return tuple(found)
