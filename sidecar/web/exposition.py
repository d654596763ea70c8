"""The answer to Prometheus: what was counted, and the status in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sidecar.base.metrics import Metrics
from sidecar.web.status_gauges import status_gauges


def exposition(status: Mapping[str, Any], metrics: Metrics) -> bytes:
    """All metrics of one scrape in Prometheus' text format. Each sample has the label ``node``:
    servers of two nodes may have one name."""
    registry = CollectorRegistry()
    registry.register(_Everything(status, metrics))
    return generate_latest(registry)


class _Everything(Collector):
    def __init__(self, status: Mapping[str, Any], metrics: Metrics) -> None:
        self._status = status
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for families in (self._metrics.registry.collect(), status_gauges(self._status)):
            for family in families:
                made = Metric(family.name, family.documentation, family.type)
                for sample in family.samples:
                    labels = {"node": self._status["node"], **sample.labels}
                    made.add_sample(sample.name, labels, sample.value)
                yield made
