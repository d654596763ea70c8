"""A server whose figures cannot be computed with begins anew, and ends nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.curves.guarded_monitor import MOST_RATE, GuardedMonitor
from sidecar.curves.monitor import ServerMonitor
from tests.sidecar.monitored_load import BUDGET, STATS, batches, later, zipf

LoadNode = Callable[..., SidecarConfig]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def monitor(load_node: LoadNode, metrics: Metrics) -> GuardedMonitor:
    return GuardedMonitor("s0", load_node({"s0": "redis://localhost:1"}), metrics)


def test_it_begins_anew_after_what_it_cannot_compute_with(
    monitor: GuardedMonitor, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monitor.observe(STATS, BUDGET)
    for batch in batches(zipf(300, 3000)):
        monitor.take(batch)
    assert len(monitor.shards) > 0
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(ServerMonitor, "_tend_stack", lambda *_: 1 / 0)
        assert monitor.observe(later(STATS), BUDGET) is None
    assert metrics.value("monitors_begun_anew") == 1
    assert "server s0: its curve begins anew" in caplog.text
    assert len(monitor.shards) == 0
    monitor.observe(STATS, BUDGET)
    for batch in batches(zipf(300, 3000)):
        monitor.take(batch)
    monitor.step(60.0)
    assert monitor.observe(later(STATS), BUDGET) is not None
    assert metrics.value("monitors_begun_anew") == 1


def test_a_rate_that_nobody_serves_is_no_estimate(
    monitor: GuardedMonitor, metrics: Metrics
) -> None:
    monitor.observe(STATS, BUDGET)
    hits = STATS.keyspace_hits + round(MOST_RATE * 1e5)
    assert monitor.observe(replace(later(STATS), keyspace_hits=hits), BUDGET) is None
    assert metrics.value("monitors_begun_anew") == 1


def test_one_batch_stands_for_no_more_reads_than_can_be(
    monitor: GuardedMonitor, metrics: Metrics
) -> None:
    monitor.observe(STATS, BUDGET)
    first, *others = batches(zipf(300, 3000))
    monitor.take(first)
    for place, batch in enumerate(others):
        monitor.take(replace(batch, seen_reads=(2**64 - 1) * (place % 2)))
    found = monitor.observe(later(STATS), BUDGET)
    assert found is None or found.request_rate_per_second <= MOST_RATE
