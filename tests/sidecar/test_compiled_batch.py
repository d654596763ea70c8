"""A batch in one call of the compiled library beside the same batch by parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sidecar.curves.batch_by_parts import take_by_parts
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.sampled_eviction import GRID_BYTES, SampledEviction
from sidecar.curves.warm_up import WarmUp
from sidecar.samples.batch import Batch, decode_batch
from sidecar.samples.joining import joined
from sidecar.samples.wire_format import DEFAULT_MODULUS, FLAG_SIZE_ALLOCATED
from workloads.sample_batches import SampledServer, number_hashes

KEYS = 900
OPERATIONS = [0.45, 0.2, 0.2, 0.04, 0.04, 0.07]  # reads that hit and miss, writes, ...


def random_batches(seed: int, *, joins: bool) -> list[Batch]:
    """Of all kinds: TTLs told and not, sizes known and not, several dbs, flushes and swaps now and
    then, a lower rate from the middle on."""
    random = np.random.default_rng(seed)
    server = SampledServer(threshold=DEFAULT_MODULUS // 2)
    batches = []
    now_us = 1_000_000_000
    for place in range(120):
        if place == 60:
            server.threshold //= 2
        count = int(random.integers(0, 400))
        operations = random.choice(6, count, p=OPERATIONS) + 1
        if place % 9 == 8 and count:
            operations[count // 2] = 7
        times_us = now_us + np.cumsum(random.integers(0, 20_000, count))
        now_us = int(times_us[-1]) if count else now_us
        ttl = random.random(count) < 0.5
        left_ms = np.where(ttl & (random.random(count) < 0.7), random.integers(0, 9000, count), -1)
        for message in server.batches(
            number_hashes(random.zipf(1.3, count) % KEYS, 0),
            operations,
            random.integers(1, 3000, count) * (random.random(count) < 0.7),
            ttl=ttl,
            ttls_ms=left_ms,
            dbs=random.integers(0, 2, count),
            times_us=times_us,
        ):
            batch = decode_batch(message)
            records = batch.records.copy()
            told = random.random(len(records)) < 0.5
            records["flags"][told] &= np.uint8(0xFF ^ FLAG_SIZE_ALLOCATED)
            batches.append(replace(batch, records=records))
    if not joins:
        return batches
    return [joined(batches[place : place + 4]) for place in range(0, 56, 4)]


def everything_of(monitor: ServerMonitor) -> tuple[object, ...]:
    histogram = monitor.counts.histogram
    shards = monitor.shards
    return (
        histogram.counts.new.tolist(),
        histogram.groups.new.tolist(),
        float(histogram.reads.new),
        list(shards.stack),
        (shards.stack.total_weight, shards.stack.held(), shards.threshold, len(shards)),
        (len(monitor.lifetimes), monitor.lifetimes.waiting, monitor.lifetimes.shortest_seconds),
        (monitor.latency.mean_seconds, monitor.latency.fill_ratio),
        (monitor.warm_up.unseen_share, monitor.samples_since_observation),
    )


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "state", ["growing", "full", "evicting by samples", "bounded", "volatile", "no room"]
)
def test_one_call_counts_what_the_parts_do(seed: int, state: str, *, joins: bool) -> None:
    limit = 64 if state == "bounded" else None
    monitors = [ServerMonitor("one", live_objects=limit) for _ in range(2)]
    for monitor in monitors:
        monitor.warm_up = WarmUp(-1.0)  # over at once, so that all is kept
        if state in ("full", "evicting by samples"):
            monitor._depth_bytes = monitor._resident_bytes = 60_000.0
        if state == "no room":
            monitor._depth_bytes = 0.0
        if state in ("evicting by samples", "no room"):
            ratios = np.clip(1 - np.log2(GRID_BYTES / 1000) / 8, 0, 1)
            monitor.counts.eviction = SampledEviction(3, ratios, np.ones(len(GRID_BYTES)))
        monitor.shards.volatile = state == "volatile"
        monitor.shards.is_libc = seed == 2
        monitor.calibration.keys_bytes, monitor.calibration.overhead_bytes = 90_000.0, -70
    compiled, by_parts = monitors
    by_parts._take = take_by_parts
    for batch in random_batches(seed, joins=joins):
        compiled.take(batch)
        by_parts.take(replace(batch))
        assert everything_of(compiled) == everything_of(by_parts)
        assert compiled._window_misses == pytest.approx(by_parts._window_misses, rel=1e-12)
    assert sum(by_parts.counts.histogram.counts.new) > 1000
    assert (by_parts._window_misses > 100) == (by_parts._depth_bytes < np.inf)


def test_the_library_alone_takes_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would hold as well if all were left to Python."""
    monkeypatch.setattr("sidecar.curves.compiled_batch.take_by_parts", None)
    monitor = ServerMonitor("one")
    batches = [one for one in random_batches(1, joins=False) if one.operations.max(initial=0) < 7]
    for batch in batches:
        monitor.take(batch)
    assert len(batches) > 50
    assert len(monitor.lifetimes) > 10
