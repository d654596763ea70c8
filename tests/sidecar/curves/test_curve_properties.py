"""What must hold of every estimate, whatever the samples, and of servers that share a sidecar."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.estimate import Estimate
from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.batch import Batch, decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import Operation
from sidecar.servers.connection.server_reading import ServerReading
from tests.sidecar.monitored_load import BUDGET, STATS, observed
from workloads.sample_batches import SampledServer, number_hashes

POLICIES = ("allkeys-lru", "volatile-lru", "allkeys-lfu")
SECONDS = 40.0


def stream(
    seed: int, count: int, *, instance: int = 1, quarters: int = 4, batch_records: int = 60
) -> list[Batch]:
    """Records of every kind, of 60 keys with and without TTLs, over ``SECONDS``."""
    random = np.random.default_rng(seed)
    keys = np.minimum(random.zipf(1.3, count), 60)
    operations = random.choice(np.arange(1, 9), count, p=[0.4, 0.2, 0.24, *[0.03] * 4, 0.04])
    server = SampledServer(instance, threshold=MODULUS // 4 * quarters)
    messages = server.batches(
        number_hashes(keys, 0),
        operations,
        np.where(operations == Operation.SWAP, 1, random.integers(0, 4000, count)),
        ttl=(keys + seed) % 3 > 0,
        dbs=np.where(operations >= Operation.FLUSH, 0, random.integers(0, 2, count)),
        times_us=np.sort(random.integers(0, int(SECONDS * 1e6), count)),
        batch_records=batch_records,
    )
    return [decode_batch(message) for message in messages]


def later(stats: ServerReading, batches: list[Batch]) -> ServerReading:
    """A reading after the batches: a third of the reads missed."""
    reads = batches[-1].seen_reads
    return replace(
        stats,
        keyspace_hits=reads - reads // 3,
        keyspace_misses=reads // 3,
        at_seconds=stats.at_seconds + SECONDS,
    )


def reading(
    policy: str, full: bool, instance: int = 1, maxmemory_bytes: int = STATS.maxmemory_bytes
) -> ServerReading:
    used = STATS.maxmemory_bytes if full else STATS.maxmemory_bytes // 2
    return replace(
        STATS,
        instance=instance,
        maxmemory_bytes=maxmemory_bytes,
        maxmemory_policy=policy,
        counted_bytes=used,
        average_ttl_seconds=5.0,
    )


def told_by(monitor: ServerMonitor, stats: ServerReading, batches: list[Batch]) -> Estimate:
    return observed(monitor, later(stats, batches))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 600),
    st.sampled_from(POLICIES),
    st.booleans(),
    st.integers(1, 4),
    # An operator may set any size by hand: far above the budget, or none at all.
    st.sampled_from([0, 1, STATS.maxmemory_bytes, 20 << 30, 1 << 62]),
)
def test_a_curve_is_within_0_and_1_and_never_rises(
    seed: int, count: int, policy: str, full: bool, quarters: int, maxmemory_bytes: int
) -> None:
    monitor = ServerMonitor("one", live_objects=24)
    stats = reading(policy, full, maxmemory_bytes=maxmemory_bytes)
    monitor.observe(stats, BUDGET)
    batches = stream(seed, count, quarters=quarters)
    for batch in batches:
        monitor.take(batch)
    told = told_by(monitor, stats, batches)
    for curve in (told.curve, told.raw_curve):
        assert curve.miss_ratios[0] == 1
        assert np.all((curve.miss_ratios >= 0) & (curve.miss_ratios <= 1))
        assert np.all(np.diff(curve.miss_ratios) <= 0)
        assert np.all(np.diff(curve.sizes_bytes) > 0)
        assert curve.sizes_bytes[-1] == BUDGET
    assert 0 <= told.curve_error_ratio <= 1
    assert told.sampled_objects <= 24


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False), st.sampled_from(POLICIES))
def test_it_does_not_matter_how_the_batches_of_servers_alternate(
    seed: int, shuffle: Random, policy: str
) -> None:
    streams = {i: stream(seed + i, 300, instance=i) for i in (1, 2, 3)}
    curves = []
    for shuffled in (False, True):
        monitors = {i: ServerMonitor(str(i), live_objects=24) for i in streams}
        for i, monitor in monitors.items():
            monitor.observe(reading(policy, True, i), BUDGET)
        turns = [i for i, batches in streams.items() for _ in batches]
        if shuffled:
            shuffle.shuffle(turns)
        left = {i: iter(batches) for i, batches in streams.items()}
        for i in turns:
            monitors[i].take(next(left[i]))
        told = [told_by(monitors[i], reading(policy, True, i), streams[i]) for i in streams]
        curves.append([estimate.curve.to_json() for estimate in told])
    assert curves[0] == curves[1]
