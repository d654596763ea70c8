"""Lets the compiled library count a batch of samples in one call."""

from __future__ import annotations

from ctypes import addressof, byref, c_double, c_uint64
from itertools import accumulate

from sidecar.curves.backend_latency import LONGEST_SECONDS, MOST_PENDING
from sidecar.curves.batch_by_parts import BatchReads, Parts, take_by_parts
from sidecar.curves.sampled_eviction import PER_OCTAVE
from sidecar.kernel.library import library
from sidecar.kernel.structures import BatchCall
from sidecar.samples.batch import Batch

_FOR_PYTHON = 1


class CompiledBatch:
    """Does ``take_by_parts`` in C, see ``kernel/batch.c``. What few servers need is left to that:
    keys that are never evicted, policies that are simulated, and records of whole databases."""

    def __init__(self) -> None:
        self._library = library()
        self._call = BatchCall(longest_us=LONGEST_SECONDS * 1e6, most_pending=MOST_PENDING)
        self._room = self._library.spreds_batch_new()
        if not self._room:
            raise MemoryError("not enough memory for a batch")

    def __del__(self) -> None:
        if getattr(self, "_room", None):
            self._library.spreds_batch_free(self._room)

    def take(self, batch: Batch, parts: Parts) -> BatchReads:
        """Do what ``take_by_parts`` does. Raises MemoryError."""
        if not self._describe_parts(parts):
            return take_by_parts(batch, parts)
        shards, call = parts.shards, self._call
        shards.notice_change(batch)
        rate = shards.rate
        call.threshold, call.modulus, call.rate = shards.threshold or 0, shards.modulus, rate
        call.begin_seconds, call.end_us = batch.first_time_us / 1e6, batch.last_time_us
        count = len(batch.records)
        call.records, call.stride = batch.records.ctypes.data, batch.records.strides[0]
        call.count = count
        told = batch.parts or (batch,)
        firsts = (c_double * len(told))(*[part.first_time_us for part in told])
        ends = (c_uint64 * len(told))(*accumulate(len(part.records) for part in told))
        call.firsts_us, call.ends = addressof(firsts), addressof(ends)
        answer = self._library.spreds_batch_take(self._room, byref(call))
        if answer == _FOR_PYTHON:
            return take_by_parts(batch, parts)
        if answer:
            raise MemoryError("not enough memory for a batch")
        shards.shed()
        return BatchReads(call.reads, call.unseen_hits, call.missed / (rate or 1.0), rate)

    def _describe_parts(self, parts: Parts) -> bool:
        """Whether the library can take what they take."""
        shards, counts, call = parts.shards, parts.counts, self._call
        if shards.volatile or shards.simulation is not None or counts.pinned_bytes:
            return False
        call.stack, call.lifetimes = shards.stack.handle, parts.lifetimes.handle
        call.fills = parts.latency.fills.handle
        call.overhead_bytes = parts.calibration.overhead_bytes
        call.is_libc = shards.is_libc
        call.default_bytes, call.keys_bytes = parts.default_bytes, parts.calibration.keys_bytes
        call.resident_bytes = parts.resident_bytes
        counts.histogram.describe(call.histogram)
        loss = call.loss
        loss.size_bytes, loss.per_octave, loss.values = parts.depth_bytes, PER_OCTAVE, None
        if counts.eviction is not None:
            first, values = counts.eviction.loss(parts.depth_bytes)
            loss.first, loss.values, loss.count = first, values.ctypes.data, len(values)
        return True
