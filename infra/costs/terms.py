"""The lines of the bill: how much of each thing a year takes, and its price.

A year has 365 days and twelve months. GB are 2^30 bytes, as AWS bills S3 and Lambda. All money is
dollars, or whatever the prices are in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from infra.costs.cycle_calls import cycle_calls
from infra.costs.measured import Measured
from infra.costs.price_list import INSTANCE_PREFIX, PriceList
from infra.costs.workload import (
    DAY_SECONDS,
    DAYS,
    ENVELOPE_BYTES,
    EXPIRY_DAYS,
    GB,
    IMAGE_GB,
    INSTANCE_DISK_GB,
    LISTS_PER_DAY,
    LONG_POLL_SECONDS,
    MONTHS,
    NOTICE_BYTES,
    PLATFORM_LOG_BYTES,
    TASK_GB,
    TASK_LEAST_SECONDS,
    TASK_START_SECONDS,
    TASK_VCPU,
    Workload,
    function_seconds,
    machines,
    task_work_seconds,
    yearly_cold_starts,
)


@dataclasses.dataclass(frozen=True)
class Term:
    """One line of the bill.

    Attributes:
        name: the same across controllers.
        quantity: of ``unit``, in a year.
        usd_per_unit: its price.
        free_quantity: of it, in a year, that the free tier covers.
        shared: belongs to the stack, whatever the number of nodes.
    """

    name: str
    quantity: float
    unit: str
    usd_per_unit: float
    free_quantity: float = 0.0
    shared: bool = False

    def usd(self, free_tier: bool) -> float:
        """Return the dollars a year."""
        billed = max(0.0, self.quantity - self.free_quantity) if free_tier else self.quantity
        return billed * self.usd_per_unit


def _term(
    prices: PriceList,
    name: str,
    key: str,
    quantity: float,
    *,
    free_key: str | None = None,
    shared: bool = False,
) -> Term:
    return Term(
        name,
        quantity,
        prices.prices[key].unit,
        prices.usd(key),
        prices.free_yearly(free_key or key),
        shared,
    )


def _cloud_terms(
    workload: Workload,
    measured: Measured,
    prices: PriceList,
    latency: float,
    controller_sqs_requests: float = 0.0,
) -> list[Term]:
    """List what every controller in the cloud needs: buckets, topic, delivery, alarms."""
    runs = workload.yearly_runs
    calls = cycle_calls(workload, latency)
    documents = _observation_bytes(workload, measured) + _plan_bytes(workload, measured)
    kept_gb = documents * runs / DAYS * (workload.retention_days + EXPIRY_DAYS) / GB
    filtered_gb = workload.yearly_filterings * NOTICE_BYTES / GB
    terms = [
        _term(prices, "S3 PUT", "s3_put", calls.s3_put * runs),
        # AWS bills a LIST as a PUT.
        _term(prices, "S3 LIST", "s3_put", LISTS_PER_DAY * DAYS * workload.nodes),
        _term(prices, "S3 GET", "s3_get", calls.s3_get * runs),
        _term(prices, "S3 storage", "s3_gb_month", kept_gb * MONTHS),
        _term(prices, "SNS publishes", "sns_publish", calls.sns_publish * runs),
        _term(prices, "SNS filtering", "sns_filter_gb", filtered_gb),
    ]
    notice_bytes = NOTICE_BYTES + ENVELOPE_BYTES
    terms += _data_out(workload, prices, _plan_bytes(workload, measured) + notice_bytes)
    deliveries = calls.sns_delivery * runs
    if workload.delivery == "http":
        terms.append(_term(prices, "SNS HTTP deliveries", "sns_http_delivery", deliveries))
    requests = controller_sqs_requests + calls.sqs_requests * runs
    if requests:
        terms.append(_term(prices, "SQS requests", "sqs_request", requests))
    if workload.alarms:
        alarm_months = workload.alarms * MONTHS
        key = "cloudwatch_alarm_month"
        terms.append(_term(prices, "CloudWatch alarms", key, alarm_months, shared=True))
    return terms


def _observation_bytes(workload: Workload, measured: Measured) -> float:
    given = workload.observation_bytes
    return measured.observation_bytes.of(workload.servers) if given is None else given


def _plan_bytes(workload: Workload, measured: Measured) -> float:
    given = workload.plan_bytes
    return measured.plan_bytes.of(workload.servers) if given is None else given


def _data_out(workload: Workload, prices: PriceList, cycle_bytes: float) -> list[Term]:
    """Return what comes to nodes outside of AWS; what they send costs nothing."""
    if workload.place == "region":
        return []
    return [_term(prices, "data to nodes", "data_out_gb", workload.yearly_runs * cycle_bytes / GB)]


def _logs(workload: Workload, measured: Measured, prices: PriceList) -> list[Term]:
    size = measured.log_bytes.of(workload.servers) + PLATFORM_LOG_BYTES
    yearly_gb = workload.yearly_runs * size / GB
    kept_gb = yearly_gb / DAYS * workload.log_retention_days
    return [
        _term(prices, "logs ingested", "logs_ingested_gb", yearly_gb),
        _term(prices, "logs kept", "logs_gb_month", kept_gb * MONTHS),
    ]


def _lambda_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    warm, cold = function_seconds(workload, measured)
    seconds = workload.yearly_runs * warm + yearly_cold_starts(workload) * cold
    gb_seconds = seconds * workload.memory_mb / 1024
    return [
        _term(prices, "Lambda requests", "lambda_request", workload.yearly_runs),
        _term(
            prices,
            "Lambda GB-s",
            "lambda_gb_second_arm",
            gb_seconds,
            free_key="lambda_gb_second",
        ),
        *_cloud_terms(workload, measured, prices, latency),
        *_logs(workload, measured, prices),
    ]


def _fargate_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    seconds = max(TASK_LEAST_SECONDS, TASK_START_SECONDS + task_work_seconds(workload, measured))
    hours = workload.yearly_runs * seconds / 3600
    return [
        _term(prices, "Fargate vCPU", "fargate_vcpu_hour_arm", hours * TASK_VCPU),
        _term(prices, "Fargate GB", "fargate_gb_hour_arm", hours * TASK_GB),
        # The network has public addresses instead of a NAT gateway.
        _term(prices, "task's address", "public_address_hour", hours),
        _term(prices, "EventBridge events", "eventbridge_event", workload.yearly_runs),
        _term(prices, "image storage", "ecr_gb_month", IMAGE_GB * MONTHS, shared=True),
        *_cloud_terms(workload, measured, prices, latency),
        *_logs(workload, measured, prices),
    ]


def _service_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    """A Fargate service: tasks that are always on, and do what the instance does."""
    hours = machines("service", workload, measured) * DAYS * 24
    return [
        _term(prices, "service vCPU", "fargate_vcpu_hour_arm", hours * TASK_VCPU, shared=True),
        _term(prices, "service GB", "fargate_gb_hour_arm", hours * TASK_GB, shared=True),
        _term(prices, "its address", "public_address_hour", hours, shared=True),
        _term(prices, "image storage", "ecr_gb_month", IMAGE_GB * MONTHS, shared=True),
        *_told_by_queue(workload, measured, prices, latency),
        *_logs(workload, measured, prices),
    ]


def _machine(
    controller: str, workload: Workload, measured: Measured, prices: PriceList
) -> list[Term]:
    """Always on, for all nodes, with a public address instead of a NAT gateway."""
    count = machines(controller, workload, measured)
    hours, disk_gb = count * DAYS * 24, count * INSTANCE_DISK_GB
    hours_key = INSTANCE_PREFIX + workload.instance_type
    return [
        _term(prices, "instance hours", hours_key, hours, shared=True),
        _term(prices, "instance disk", "ebs_gb_month", disk_gb * MONTHS, shared=True),
        _term(prices, "its address", "public_address_hour", hours, shared=True),
    ]


def _instance_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    return [
        *_machine("instance", workload, measured, prices),
        *_told_by_queue(workload, measured, prices, latency),
    ]


def _told_by_queue(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    """It learns of observations from a queue of its own, which it polls all the time."""
    own_requests = 3 * workload.yearly_runs + DAYS * DAY_SECONDS / LONG_POLL_SECONDS
    return _cloud_terms(workload, measured, prices, latency, own_requests)


def _http_terms(
    workload: Workload, measured: Measured, prices: PriceList, _latency: float
) -> list[Term]:
    """``python -m solver_lambda serve``, which answers each POST with the plan: no
    service is called, and no document kept outside the nodes."""
    plan_bytes = _plan_bytes(workload, measured)
    machine = _machine("http", workload, measured, prices)
    return [*machine, *_data_out(workload, prices, plan_bytes)]


def _embedded_terms(
    _workload: Workload, _measured: Measured, _prices: PriceList, _latency: float
) -> list[Term]:
    """The solver runs in the sidecar, documents lie in a folder: AWS is not asked for anything."""
    return []


TERMS: dict[str, Callable[[Workload, Measured, PriceList, float], list[Term]]] = {
    "lambda": _lambda_terms,
    "fargate": _fargate_terms,
    "service": _service_terms,
    "instance": _instance_terms,
    "http": _http_terms,
    "embedded": _embedded_terms,
}
