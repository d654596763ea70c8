"""The answer to Prometheus: what was counted, and the status in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sidecar.base.metrics import PREFIX, SUFFIX, Metrics
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
        for family in self._metrics.registry.collect():
            yield self._of_node(self._from_0(family))
        for gauges in status_gauges(self._status):
            yield self._of_node(gauges)

    def _from_0(self, family: Metric) -> Metric:
        """With a 0 for each server that was not counted yet: the first count is an increase."""
        if self._metrics.labels_of(family.name.removeprefix(PREFIX)) == ("instance",):
            counted = {sample.labels["instance"] for sample in family.samples}
            for server in self._status["servers"]:
                if server["name"] not in counted:
                    family.add_sample(f"{family.name}{SUFFIX}", {"instance": server["name"]}, 0)
        return family

    def _of_node(self, family: Metric) -> Metric:
        made = Metric(family.name, family.documentation, family.type)
        for sample in family.samples:
            labels = {"node": self._status["node"], **sample.labels}
            made.add_sample(sample.name, labels, sample.value)
        return made
