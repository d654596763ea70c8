"""Counts by name and labels, in the log's words and in Prometheus'."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.base.metrics import Metrics


def test_counts_are_kept_by_label_and_summed_over_those_not_given() -> None:
    metrics = Metrics()
    metrics.servers_lost.labels("a").inc()
    metrics.servers_lost.labels("b").inc(2)
    metrics.observations.inc()
    assert metrics.value("servers_lost") == 3
    assert metrics.value("servers_lost", server="b") == 2
    assert metrics.value("servers_lost", server="c") == 0
    assert metrics.snapshot() == {
        "observations": 1,
        "servers_lost[server=a]": 1,
        "servers_lost[server=b]": 2,
    }
    with pytest.raises(KeyError):
        metrics.value("servers_lots")


def test_what_was_counted_since_the_last_time() -> None:
    metrics = Metrics()
    metrics.observations.inc()
    assert metrics.since_last_asked() == {"observations": 1}
    assert metrics.since_last_asked() == {}
    metrics.observations.inc(2)
    assert metrics.since_last_asked() == {"observations": 2}


def test_prometheus_reads_every_metric_with_its_meaning() -> None:
    metrics = Metrics()
    metrics.plans_refused.labels("old_cycle").inc()
    families = {family.name: family for family in text_string_to_metric_families(metrics.text())}
    assert families["spreds_plans_refused"].samples[0].labels == {"reason": "old_cycle"}
    counters = {name for name in vars(Metrics) if not name.startswith("_")}
    counters -= {"counter", "value", "snapshot", "since_last_asked", "text"}
    assert {f"spreds_{name}" for name in counters} == families.keys()
    assert all(family.documentation for family in families.values())


def test_two_sidecars_of_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.observations.inc()
    assert other.value("observations") == 0


def test_threads_lose_no_count() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(1000):
            metrics.transitions.labels("a").inc()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.value("transitions") == 4000
