"""What waits to be counted for other policies is bounded, and is counted in the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.other_policies import SimulatedLfu
from tests.sidecar.monitored_load import SIZE, STATS, batches, monitor_of, zipf
from workloads.sample_batches import SampledServer


def test_small_and_empty_batches_do_not_pile_up() -> None:
    """An idle server sends one each second, for as long as it runs."""
    monitor = monitor_of(STATS)
    lfu = SimulatedLfu(EvictionSettings(), 1000.0 * SIZE)
    parts = monitor._parts()
    (some, *_) = batches(zipf(1000, 300), SampledServer())
    empty = replace(some, records=some.records[:0])
    small = replace(some, records=some.records[:1])
    waited = []
    for one in [some, *[empty] * 1000, *[small] * 1000]:
        lfu.take(one, parts, 10.0)
        waited.append(len(lfu._waiting))
    assert max(waited) < 100
    assert float(lfu._reads.new) == pytest.approx(10.0 * 2001, rel=0.05)


def test_the_same_is_counted_in_small_parts_and_in_large_ones() -> None:
    keys = zipf(3000, 12_000)
    told = []
    for records in (678, 20):
        monitor = monitor_of(STATS)
        lfu = SimulatedLfu(EvictionSettings(), 1000.0 * SIZE)
        for batch in batches(keys, SampledServer(), batch_records=records):
            lfu.take(batch, monitor._parts(), len(batch.records) / 2)
        lfu._count(monitor._parts())
        told.append((lfu._simulation.misses.new.sum(axis=0), lfu._of_lru.new.sum(axis=0)))
    for small, large in zip(*told, strict=True):
        assert small == pytest.approx(large, rel=0.1, abs=200)
        assert np.all(np.diff(small) <= 1e-6)
