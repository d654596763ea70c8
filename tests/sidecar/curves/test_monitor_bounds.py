"""A monitor keeps few objects, whatever a hostile sampler sends between two observations."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from sidecar.curves.batch_by_parts import take_by_parts
from sidecar.curves.monitor import RECORDS_PER_OBJECT, ServerMonitor
from sidecar.samples.batch import Batch, decode_batch
from sidecar.samples.wire_format import MAX_BATCH_RECORDS
from tests.oracles.fills import Fills
from tests.oracles.lifetimes import Lifetimes
from tests.oracles.lru_stack import LruStack
from tests.oracles.miniature_caches import MiniatureCaches
from tests.sidecar.monitored_load import BUDGET, STATS
from workloads.sample_batches import SampledServer

LIVE_OBJECTS = 64
WRITE, DELETE, EVICTION = 3, 4, 6
BATCHES = 8


def forged(place: int, salt: int, operations: list[int], ttl_ms: int) -> Batch:
    """Ever new objects, whatever is said of each."""
    random = np.random.default_rng(place)
    per_batch = MAX_BATCH_RECORDS // len(operations)
    keys = np.repeat(random.integers(0, 1 << 48, per_batch, dtype=np.uint64), len(operations))
    (message,) = SampledServer().batches(
        keys,
        np.tile(operations, per_batch),
        1,
        ttls_ms=ttl_ms,
        times_us=np.full(len(keys), place * 1_000_000),
    )
    return replace(decode_batch(message), sequence=place, salt_id=salt)


def kept(monitor: ServerMonitor) -> int:
    """The most objects, or misses, that one of its structures keeps."""
    lifetimes, simulation = monitor.lifetimes, monitor.shards.simulation
    assert isinstance(lifetimes, Lifetimes)
    caches = simulation._caches._weights if simulation else ()  # type: ignore[union-attr]
    fills = cast("Fills", monitor.latency.fills)
    return max(
        *map(len, (lifetimes._copies, lifetimes._given_seconds, lifetimes._filled_at)),
        *map(len, (lifetimes._missed, lifetimes._due, monitor.shards, caches, fills)),
    )


@pytest.fixture(autouse=True)
def _countable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the structures in Python, whose entries can be counted; the compiled ones do the same."""
    for name, twin in (
        ("monitor.Lifetimes", Lifetimes),
        ("shards.LruStack", LruStack),
        ("backend_latency.Fills", Fills),
        ("miniature_simulation.MiniatureCaches", MiniatureCaches),
        ("compiled_batch.CompiledBatch.take", lambda _, batch, parts: take_by_parts(batch, parts)),
    ):
        monkeypatch.setattr(f"sidecar.curves.{name}", twin)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-lfu"])
@pytest.mark.parametrize("operations", [[WRITE], [WRITE, DELETE], [WRITE, EVICTION]])
@pytest.mark.parametrize("ttl_ms", [1, 4_000_000_000])
@pytest.mark.parametrize("new_salts", [False, True])
def test_forged_samples_without_end_take_no_more_memory(
    policy: str, operations: list[int], ttl_ms: int, *, new_salts: bool
) -> None:
    monitor = ServerMonitor("a", live_objects=LIVE_OBJECTS)
    monitor.observe(replace(STATS, maxmemory_policy=policy), BUDGET)
    most = 0
    for place in range(BATCHES):
        monitor.take(forged(place, place if new_salts else 0, operations, ttl_ms))
        most = max(most, kept(monitor))
    # One batch that is taken as a whole comes on top, and twice that of what is due.
    assert most <= RECORDS_PER_OBJECT * LIVE_OBJECTS + 3 * MAX_BATCH_RECORDS
