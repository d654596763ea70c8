"""What is asked of a controller, and how long that takes."""

from __future__ import annotations

import dataclasses
import math

from infra.costs.measured import Measured

CONTROLLERS = ("lambda", "fargate", "instance", "embedded")
DELIVERIES = ("sqs", "http")
POLLINGS = ("waiting", "always")
DAYS = 365
MONTHS = 12
GB = 1 << 30
DAY_SECONDS = 86_400
MOST_CYCLES_PER_DAY = 10_000
MOST_RETENTION_DAYS = 36_500  # a century; S3 would take 32 bits

# AWS: at 1,769 MB a function has one whole processor, in proportion below it
# (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html).
WHOLE_CPU_MEMORY_MB = 1769
# What an observation holds at most, and when AWS ends the function of the stack.
MOST_SERVERS = 1024
FUNCTION_TIMEOUT_SECONDS = 60
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
TRANSPORT_SECONDS = 1.7


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

    @property
    def yearly_runs(self) -> float:
        """Of the solver, for all nodes."""
        return self.cycles_per_day * self.nodes * DAYS


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
        return TRANSPORT_SECONDS + warm + (cold if is_cold else 0.0)
    if controller == "fargate":
        return TRANSPORT_SECONDS + TASK_START_SECONDS + task_work_seconds(workload, measured)
    solve = measured.run_cpu_seconds(workload.servers)
    if controller == "embedded":
        return solve
    busy_ratio = workload.cycles_per_day * workload.nodes * solve / DAY_SECONDS
    return TRANSPORT_SECONDS + S3_WAIT_SECONDS + solve if busy_ratio < 1 else math.inf


def task_work_seconds(workload: Workload, measured: Measured) -> float:
    cpu = measured.init_cpu_seconds + measured.run_cpu_seconds(workload.servers)
    return cpu / TASK_VCPU + S3_WAIT_SECONDS
