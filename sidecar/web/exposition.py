"""Answers Prometheus: what was counted, and the status in numbers.

A table has the status document's gauges: each one's name, meaning and place in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sidecar.base.metrics import PREFIX, SUFFIX, Metrics

Document = Mapping[str, Any]
Labels = tuple[str, ...]
# Values of the labels that the gauge has, and its own; what is not known has no sample.
Found = Iterable[tuple[Labels, float | None]]

MEBIBYTE = 1 << 20
VERDICTS = ("kept", "too_early", "worse", "rolled_back", "not_checked")


class _Gauge(NamedTuple):
    """Describes a gauge: ``find`` has the samples of a status, or of one of its servers."""

    name: str
    meaning: str
    find: Callable[[Document], Found]
    labels: Labels = ()


def status_gauges(status: Document) -> Iterator[GaugeMetricFamily]:
    """Make the gauges of the node, and of each of its servers, whose label is ``instance``."""
    for gauge in OF_NODE:
        family = GaugeMetricFamily(f"spreds_{gauge.name}", gauge.meaning, labels=gauge.labels)
        _add(family, (), gauge.find(status))
        yield family
    for gauge in OF_SERVER:
        labels = ("instance", *gauge.labels)
        family = GaugeMetricFamily(f"spreds_{gauge.name}", gauge.meaning, labels=labels)
        for server in status["servers"]:
            _add(family, (server["name"],), gauge.find(server))
        yield family


def _add(family: GaugeMetricFamily, first: Labels, found: Found) -> None:
    for labels, value in found:
        if value is not None:
            family.add_metric((*first, *labels), float(value))


def _at(*keys: str, scale: float = 1.0) -> Callable[[Document], Found]:
    """Return a finder of the number, or truth, at this place. It finds nothing where a part of the
    way is null."""

    def find(document: Document) -> Found:
        found: Any = document
        for key in keys:
            found = None if found is None else found.get(key)
        return [((), None if found is None else found * scale)]

    return find


def _known(key: str, scale: float = 1.0) -> Callable[[Document], Found]:
    """Return a finder of the number, unless no curve is known that it could come from."""
    find = _at(key, scale=scale)
    return lambda server: find(server) if server.get("curve") else []


def _is_there(key: str) -> Callable[[Document], Found]:
    return lambda document: [((), document.get(key) is not None)]


def _info(status: Document) -> Found:
    return [((status["spreds_version"], status["mode"]), 1)]


def _headroom(status: Document) -> Found:
    parts = (status["budget"].get("headroom_bytes") or {}).items()
    return [((purpose,), size_bytes) for purpose, size_bytes in parts]


def _loops(status: Document) -> Found:
    ends = (("main", "loop_at_seconds"), ("actuator", "actuator_at_seconds"))
    return [((loop,), status.get(key)) for loop, key in ends]


def _verdict(status: Document) -> Found:
    check = status.get("last_check")
    return [((verdict,), check["verdict"] == verdict) for verdict in VERDICTS] if check else []


def _problems(status: Document) -> Found:
    return [((), len(status.get("problems") or ()))]


def _unanswered(status: Document) -> Found:
    silence = status["controller"]["silence"]
    return [((), silence["cycles"] if silence else 0)]


def _backend(server: Document) -> Found:
    return [((server.get("backend_latency_source") or "",), server.get("backend_latency_seconds"))]


def _sampler(server: Document) -> Found:
    kind = server.get("sampler")
    return [((kind or "none",), 1)]


OF_NODE = (
    _Gauge("info", "Always 1; what runs here, and its mode", _info, ("version", "mode")),
    _Gauge("start_time_seconds", "When the sidecar started, Unix time", _at("started_at_seconds")),
    _Gauge("sets_sizes", "1 if the sidecar sets maxmemory now, 0 if it watches", _at("sets_sizes")),
    _Gauge("paused", "1 while an operator's pause lasts", _is_there("pause")),
    _Gauge("waiting", "1 while no plan is carried out, because one failed", _is_there("wait")),
    _Gauge("problems", "Problems that the status tells in words", _problems),
    _Gauge(
        "unanswered_observations",
        "Observations in a row that the cloud or the service has not answered in time",
        _unanswered,
    ),
    _Gauge(
        "budget_bytes",
        "What maxmemory sums to at most, but for what `status` names",
        _at("budget", "bytes"),
    ),
    _Gauge("budget_maxmemory_bytes", "Sum of maxmemory", _at("budget", "maxmemory_bytes")),
    _Gauge("budget_used_bytes", "Sum of used_memory", _at("budget", "used_bytes")),
    _Gauge("budget_rss_bytes", "Sum of resident memory", _at("budget", "rss_bytes")),
    _Gauge("rss_budget_bytes", "Resident memory stays below", _at("budget", "rss_budget_bytes")),
    _Gauge(
        "headroom_bytes",
        "Resident memory beside what maxmemory counts; the programs are in fragmentation",
        _headroom,
        ("purpose",),
    ),
    _Gauge("loop_timestamp_seconds", "Last turn of a loop, Unix time", _loops, ("loop",)),
    _Gauge(
        "last_observation_timestamp_seconds",
        "When the last observation was made, Unix time",
        _at("last_observation", "made_at_seconds"),
    ),
    _Gauge(
        "last_plan_timestamp_seconds",
        "When the last plan was taken, Unix time",
        _at("last_plan", "taken_at_seconds"),
    ),
    _Gauge(
        "last_plan_carried_out",
        "1 if the last plan was carried out, 0 if it was only shown",
        _at("last_plan", "carried_out"),
    ),
    _Gauge(
        "measured_mean_access_time_seconds",
        "Weighted mean over all servers, by the hits and misses that they counted in the last "
        "window",
        _at("measured_access_time_seconds"),
    ),
    _Gauge(
        "predicted_mean_access_time_seconds",
        "Weighted mean over all servers, as the last plan predicts it, after the cost of moving",
        _at("last_plan", "mean_access_time_with_moving_seconds"),
    ),
    _Gauge(
        "checked_predicted_mean_access_time_seconds",
        "By the hit ratios of the last plan that was checked, for the reads that came after it",
        _at("last_check", "predicted_seconds"),
    ),
    _Gauge(
        "checked_observed_mean_access_time_seconds",
        "What came instead, weighted mean over all servers",
        _at("last_check", "observed_seconds"),
    ),
    _Gauge("last_check_verdict", "1 for what became of the last plan", _verdict, ("verdict",)),
    _Gauge(
        "predicted_gain_ratio",
        "Of mean access time, as the last plan that was checked has it",
        _at("gain", "predicted_ratio"),
    ),
    _Gauge("realised_gain_ratio", "The same, as it came", _at("gain", "realised_ratio")),
    _Gauge(
        "recommended_gain_ratio",
        "Of mean access time, had the recommended sizes been in force, without the cost of moving",
        _at("recommended_gain", "ratio"),
    ),
    _Gauge(
        "installed_gain_ratio",
        "Of mean access time by the curves, against the sizes that SPREDS found when it came",
        _at("installed_gain", "ratio"),
    ),
)
OF_SERVER = (
    _Gauge("up", "1 if the server answers", _at("up")),
    _Gauge("sampler_info", "Always 1; patch, module, look or none", _sampler, ("sampler",)),
    _Gauge("maxmemory_bytes", "maxmemory in force", _at("maxmemory_bytes")),
    _Gauge("target_bytes", "maxmemory that it is to have", _at("target_bytes")),
    _Gauge(
        "recommended_bytes",
        "maxmemory by the last plan, unless an order came after it",
        _at("recommended_bytes"),
    ),
    _Gauge("minimum_bytes", "Least maxmemory", _at("minimum_bytes")),
    _Gauge("maximum_bytes", "Most maxmemory", _at("maximum_bytes")),
    _Gauge("used_bytes", "used_memory", _at("used_bytes")),
    _Gauge("rss_bytes", "Resident memory", _at("rss_bytes")),
    _Gauge(
        "hit_ratio",
        "Of reads in the last sixtieth of a cycle, or second if that is longer",
        _at("hit_ratio"),
    ),
    _Gauge(
        "predicted_hit_ratio",
        "Expected with the size that is wanted now",
        _known("predicted_hit_ratio"),
    ),
    _Gauge("recommended_hit_ratio", "Expected with the last plan", _known("recommended_hit_ratio")),
    _Gauge("reads_per_second", "In the last window", _at("reads_per_second")),
    _Gauge("access_time_seconds", "Mean of a read", _at("access_time_seconds")),
    _Gauge(
        "predicted_access_time_seconds",
        "Mean of a read, expected with the size that is wanted now",
        _known("predicted_access_time_seconds"),
    ),
    _Gauge(
        "recommended_access_time_seconds",
        "Mean of a read, expected with the last plan",
        _known("recommended_access_time_seconds"),
    ),
    _Gauge(
        "backend_latency_seconds",
        "Time of a miss; source: team, configured or measured",
        _backend,
        ("source",),
    ),
    _Gauge("curve_error_ratio", "How far its curve may be off", _known("curve_error_ratio")),
    _Gauge("weight", "Of its access time in the mean", _at("weight")),
    _Gauge("held", "1 if an operator resized it by hand", _is_there("held")),
    _Gauge(
        "server_waiting",
        "1 while it keeps its size, because its part of a plan failed",
        _is_there("wait"),
    ),
    _Gauge(
        "marginal_gain_seconds_per_byte",
        "Fall of the mean access time with one more byte for this server",
        _known("marginal_gain_seconds_per_mebibyte", scale=1 / MEBIBYTE),
    ),
)


def exposition(status: Mapping[str, Any], metrics: Metrics) -> bytes:
    """Return all metrics of one scrape in Prometheus' text format. Each sample has the label
    ``node``: servers of two nodes may have one name."""
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
        """Add a 0 for each server that was not counted yet: the first count is an increase."""
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
