"""Counts by name and labels, in the log's words and in Prometheus'."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.base.metrics import Metrics, reason_code
from sidecar.web.exposition import exposition, status_gauges
from tests.sidecar.example_sidecar import example_status


def test_counts_are_kept_by_label_and_summed_over_those_not_given() -> None:
    metrics = Metrics()
    metrics.servers_lost.labels("a").inc()
    metrics.servers_lost.labels("b").inc(2)
    metrics.observations.inc()
    assert metrics.value("servers_lost") == 3
    assert metrics.value("servers_lost", instance="b") == 2
    assert metrics.value("servers_lost", instance="c") == 0
    assert metrics.snapshot() == {
        "observations": 1,
        "servers_lost[instance=a]": 1,
        "servers_lost[instance=b]": 2,
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


def test_prometheus_reads_every_metric_with_its_meaning_and_node() -> None:
    metrics = Metrics()
    metrics.plans_refused.labels("old_cycle").inc()
    text = exposition(example_status(), metrics).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (sample,) = families["spreds_plans_refused"].samples
    assert sample.labels == {"node": "cache-1", "reason": "old_cycle"}
    counters = {name for name in vars(Metrics) if not name.startswith("_")}
    counters -= {"counter", "labels_of", "value", "snapshot", "since_last_asked"}
    found = {name for name, family in families.items() if family.type == "counter"}
    assert {f"spreds_{name}" for name in counters} == found
    assert all(family.documentation for family in families.values())
    for family in families.values():
        assert all(sample.labels["node"] == "cache-1" for sample in family.samples)


def test_a_code_is_a_word_and_nothing_else() -> None:
    assert reason_code("small_gain: the best split would gain 0.1%") == "small_gain"
    for text in ("", "two words: x", "Ünd: x", "x" * 33, 'a"b', "no colon here"):
        assert reason_code(text) == "other"


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


def test_what_no_curve_tells_has_no_sample() -> None:
    status = example_status()
    status["servers"][0].update(curve=None, backend_latency_seconds=None)
    found = {
        family.name.removeprefix("spreds_"): [
            sample.labels["instance"] for sample in family.samples
        ]
        for family in status_gauges(status)
        if any("instance" in sample.labels for sample in family.samples)
    }
    names = [server["name"] for server in status["servers"]]
    assert found["hit_ratio"] == names
    for gauge in (
        "predicted_hit_ratio",
        "recommended_hit_ratio",
        "recommended_access_time_seconds",
        "curve_error_ratio",
        "marginal_gain_seconds_per_byte",
        "backend_latency_seconds",
    ):
        assert found[gauge] == names[1:]
