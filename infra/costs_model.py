"""What a year of SPREDS costs with each controller, term by term.

A year has 365 days and twelve months. GB are 2^30 bytes, as AWS bills S3 and Lambda. All money is
US dollars. Nothing here reads a clock, a file or AWS.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from infra.costs_measured import Measured
from infra.prices import INSTANCE_PREFIX, PriceList

CONTROLLERS = ("lambda", "fargate", "instance", "embedded")
DELIVERIES = ("sqs", "http")
POLLINGS = ("waiting", "always")
DAYS = 365
MONTHS = 12
GB = 1 << 30
DAY_SECONDS = 86_400

# AWS: at 1,769 MB a function has one whole processor, in proportion below it
# (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html).
WHOLE_CPU_MEMORY_MB = 1769
# Assumed, not measured on AWS: S3's two answers to a run, during which the function waits.
S3_WAIT_SECONDS = 0.06
# Assumed: an idle function stays warm for so long. AWS promises nothing; less would be unusual.
KEEP_WARM_SECONDS = 300
# Assumed: START, END, REPORT and INIT_START lines, and 26 bytes that are billed with each event.
PLATFORM_LOG_BYTES = 600
# Assumed: an S3 event as SNS filters it.
NOTICE_BYTES = 1024
LONG_POLL_SECONDS = 20
# Fargate's smallest task; AWS bills at least a minute, from the pull of the image on.
TASK_VCPU = 0.25
TASK_GB = 0.5
TASK_LEAST_SECONDS = 60
# Assumed, not measured: to find a place, pull the image and start.
TASK_START_SECONDS = 30
IMAGE_GB = 0.1
INSTANCE_DISK_GB = 8
# From PUT of the observation to the plan's arrival, without the planning: the thesis' cycle over
# AWS took 1,800 ms where planning beside the cache took 100 ms.
ROAD_SECONDS = 1.7


@dataclasses.dataclass(frozen=True)
class Workload:
    """What is to be paid for.

    Attributes:
        cycles_per_day: observations of each node.
        servers: Redis servers (partitions) on each node.
        nodes: that share one stack.
        delivery: ``sqs`` or ``http``, how plans come to a node.
        polling: with ``sqs``; ``waiting``: the node polls only from its observation to the plan,
            ``always``: one long poll after another.
        retention_days: of observations and plans; log_retention_days: of the function's log.
        alarms: of the stack, shared by its nodes.
        memory_mb: of the function.
        duration_seconds: billed for every run, instead of what was measured; or ``None``.
        observation_bytes, plan_bytes: instead of what was measured; or ``None``.
        instance_type: of the always-on machine, one for all nodes.
    """

    cycles_per_day: float = 24
    servers: int = 3
    nodes: int = 1
    delivery: str = "sqs"
    polling: str = "waiting"
    retention_days: float = 180
    log_retention_days: float = 180
    alarms: int = 2
    memory_mb: int = 512
    duration_seconds: float | None = None
    observation_bytes: int | None = None
    plan_bytes: int | None = None
    instance_type: str = "t4g.micro"


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
        """Dollars a year."""
        billed = max(0.0, self.quantity - self.free_quantity) if free_tier else self.quantity
        return billed * self.usd_per_unit


@dataclasses.dataclass(frozen=True)
class ControllerCost:
    """A year with one controller; ``latency_seconds``: from the observation to its plan's arrival."""

    controller: str
    terms: tuple[Term, ...]
    latency_seconds: float

    def nodes_usd(self, free_tier: bool) -> float:
        """Dollars a year that grow with the nodes: all but the stack's shared terms."""
        return sum(term.usd(free_tier) for term in self.terms if not term.shared)

    def shared_usd(self, free_tier: bool) -> float:
        """Dollars a year of the stack itself."""
        return sum(term.usd(free_tier) for term in self.terms if term.shared)

    def usd(self, free_tier: bool) -> float:
        """Dollars a year, all terms."""
        return sum(term.usd(free_tier) for term in self.terms)


def slowdown(memory_mb: int) -> float:
    """How many seconds a function of ``memory_mb`` needs for one second of a whole processor."""
    return max(1.0, WHOLE_CPU_MEMORY_MB / memory_mb)


def cold_starts_per_day(cycles_per_day: float) -> float:
    """At most: every run, or one for each time that the function can have gone cold.

    Counted for each node as if it were alone; nodes that share a function keep it warm together.
    """
    return min(cycles_per_day, DAY_SECONDS / KEEP_WARM_SECONDS)


def function_seconds(workload: Workload, measured: Measured) -> tuple[float, float]:
    """Billed seconds of a warm run, and those that a cold start adds (AWS bills the
    initialisation since August 2025).
    """
    if workload.duration_seconds is not None:
        return workload.duration_seconds, 0.0
    slow = slowdown(workload.memory_mb)
    run = measured.run_cpu_seconds(workload.servers) * slow + S3_WAIT_SECONDS
    return run, measured.init_cpu_seconds * slow


def latency_seconds(controller: str, workload: Workload, measured: Measured) -> float:
    """From the observation to its plan's arrival.

    For a function that is called less often than it stays warm, of a cold start. Infinite for a
    machine that has more to do than time to do it.
    """
    if controller == "lambda":
        warm, cold = function_seconds(workload, measured)
        is_cold = DAY_SECONDS / workload.cycles_per_day > KEEP_WARM_SECONDS
        return ROAD_SECONDS + warm + (cold if is_cold else 0.0)
    if controller == "fargate":
        return ROAD_SECONDS + TASK_START_SECONDS + _task_work_seconds(workload, measured)
    solve = measured.run_cpu_seconds(workload.servers)
    if controller == "embedded":
        return solve
    busy_ratio = workload.cycles_per_day * workload.nodes * solve / DAY_SECONDS
    return ROAD_SECONDS + S3_WAIT_SECONDS + solve if busy_ratio < 1 else math.inf


def compare(
    workload: Workload,
    measured: Measured,
    prices: PriceList,
    latencies_seconds: Mapping[str, float] | None = None,
    controllers: Iterable[str] = CONTROLLERS,
) -> list[ControllerCost]:
    """The bill of each controller, in the order asked for.

    ``latencies_seconds`` replaces what the model says of a controller.
    """
    known = latencies_seconds or {}
    bills = []
    for controller in controllers:
        latency = known.get(controller, latency_seconds(controller, workload, measured))
        terms = _TERMS[controller](workload, measured, prices, latency)
        bills.append(ControllerCost(controller, tuple(terms), latency))
    return bills


def cheapest(
    bills: Sequence[ControllerCost], time_limit_seconds: float, free_tier: bool
) -> ControllerCost | None:
    """The cheapest that meets the time limit, of two the faster; ``None`` if none meets it."""
    meeting = [bill for bill in bills if bill.latency_seconds <= time_limit_seconds]
    return min(meeting, key=lambda b: (b.usd(free_tier), b.latency_seconds), default=None)


def first_crossing(difference: Callable[[int], float], limit: int) -> int | None:
    """The smallest whole n in [1, limit] with ``difference(n)`` >= 0; ``None`` if there is none.

    ``difference`` must not fall.
    """
    if limit < 1 or difference(limit) < 0:
        return None
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if difference(middle) >= 0 else (middle, high)
    return high


def break_even(
    workload: Workload,
    measured: Measured,
    prices: PriceList,
    *,
    controller: str = "lambda",
    against: str = "instance",
    free_tier: bool = False,
    limit: int = 1_000_000,
) -> int | None:
    """Cycles a day of each node from which ``controller`` costs as much as ``against``.

    ``None``: not up to ``limit``.
    """

    def difference(cycles_per_day: int) -> float:
        at = dataclasses.replace(workload, cycles_per_day=cycles_per_day)
        one, other = compare(at, measured, prices, controllers=(controller, against))
        return one.usd(free_tier) - other.usd(free_tier)

    return first_crossing(difference, limit)


def _task_work_seconds(workload: Workload, measured: Measured) -> float:
    cpu = measured.init_cpu_seconds + measured.run_cpu_seconds(workload.servers)
    return cpu / TASK_VCPU + S3_WAIT_SECONDS


def _runs(workload: Workload) -> float:
    return workload.cycles_per_day * workload.nodes * DAYS


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


def _road(
    workload: Workload,
    measured: Measured,
    prices: PriceList,
    latency: float,
    controller_sqs_requests: float = 0.0,
) -> list[Term]:
    """What every controller in the cloud needs: buckets, topic, delivery to the nodes, alarms."""
    runs = _runs(workload)
    servers = workload.servers
    documents = (
        measured.observation_bytes.of(servers)
        if workload.observation_bytes is None
        else workload.observation_bytes
    ) + (measured.plan_bytes.of(servers) if workload.plan_bytes is None else workload.plan_bytes)
    kept_gb = documents * runs / DAYS * workload.retention_days / GB
    filtered_gb = runs * workload.nodes * NOTICE_BYTES / GB
    terms = [
        # The observation and the plan.
        _term(prices, "S3 PUT", "s3_put", 2 * runs),
        # The observation, the plan, and each server's settings, which its team may have changed.
        _term(prices, "S3 GET", "s3_get", (2 + servers) * runs),
        _term(prices, "S3 storage", "s3_gb_month", kept_gb * MONTHS),
        _term(prices, "SNS publishes", "sns_publish", runs),
        # Every node's subscription looks at every notice.
        _term(prices, "SNS filtering", "sns_filter_gb", filtered_gb),
    ]
    requests = controller_sqs_requests
    if workload.delivery == "http":
        terms.append(_term(prices, "SNS HTTP deliveries", "sns_http_delivery", runs))
    else:
        requests += _polling_requests(workload, latency)
    if requests:
        terms.append(_term(prices, "SQS requests", "sqs_request", requests))
    if workload.alarms:
        alarm_months = workload.alarms * MONTHS
        key = "cloudwatch_alarm_month"
        terms.append(_term(prices, "CloudWatch alarms", key, alarm_months, shared=True))
    return terms


def _polling_requests(workload: Workload, latency: float) -> float:
    """SNS sends (counted, though AWS may not bill it), the node receives and deletes."""
    runs = _runs(workload)
    if workload.polling == "always":
        return 3 * runs + _continuous_polls() * workload.nodes
    # A plan that comes later than the next observation is not waited for any longer.
    waited = min(latency, DAY_SECONDS / workload.cycles_per_day)
    return runs * (max(1, math.ceil(waited / LONG_POLL_SECONDS)) + 2)


def _continuous_polls() -> float:
    """Of one consumer, in a year."""
    return DAYS * DAY_SECONDS / LONG_POLL_SECONDS


def _logs(workload: Workload, measured: Measured, prices: PriceList) -> list[Term]:
    size = measured.log_bytes.of(workload.servers) + PLATFORM_LOG_BYTES
    yearly_gb = _runs(workload) * size / GB
    kept_gb = yearly_gb / DAYS * workload.log_retention_days
    return [
        _term(prices, "logs ingested", "logs_ingested_gb", yearly_gb),
        _term(prices, "logs kept", "logs_gb_month", kept_gb * MONTHS),
    ]


def _lambda_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    warm, cold = function_seconds(workload, measured)
    daily = workload.cycles_per_day * warm + cold_starts_per_day(workload.cycles_per_day) * cold
    gb_seconds = daily * DAYS * workload.nodes * workload.memory_mb / 1024
    return [
        _term(prices, "Lambda requests", "lambda_request", _runs(workload)),
        _term(
            prices,
            "Lambda GB-s",
            "lambda_gb_second_arm",
            gb_seconds,
            free_key="lambda_gb_second",
        ),
        *_road(workload, measured, prices, latency),
        *_logs(workload, measured, prices),
    ]


def _fargate_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    seconds = max(TASK_LEAST_SECONDS, TASK_START_SECONDS + _task_work_seconds(workload, measured))
    hours = _runs(workload) * seconds / 3600
    return [
        _term(prices, "Fargate vCPU", "fargate_vcpu_hour_arm", hours * TASK_VCPU),
        _term(prices, "Fargate GB", "fargate_gb_hour_arm", hours * TASK_GB),
        _term(prices, "EventBridge events", "eventbridge_event", _runs(workload)),
        _term(prices, "image storage", "ecr_gb_month", IMAGE_GB * MONTHS, shared=True),
        *_road(workload, measured, prices, latency),
        *_logs(workload, measured, prices),
    ]


def _instance_terms(
    workload: Workload, measured: Measured, prices: PriceList, latency: float
) -> list[Term]:
    # It learns of observations from a queue of its own, which it polls all the time.
    own_requests = 3 * _runs(workload) + _continuous_polls()
    hours_key = INSTANCE_PREFIX + workload.instance_type
    return [
        _term(prices, "instance hours", hours_key, DAYS * 24, shared=True),
        _term(prices, "instance disk", "ebs_gb_month", INSTANCE_DISK_GB * MONTHS, shared=True),
        *_road(workload, measured, prices, latency, own_requests),
    ]


def _embedded_terms(
    _workload: Workload, _measured: Measured, _prices: PriceList, _latency: float
) -> list[Term]:
    """The solver runs in the sidecar, documents lie in a folder: AWS is not asked for anything."""
    return []


_TERMS: dict[str, Callable[[Workload, Measured, PriceList, float], list[Term]]] = {
    "lambda": _lambda_terms,
    "fargate": _fargate_terms,
    "instance": _instance_terms,
    "embedded": _embedded_terms,
}
