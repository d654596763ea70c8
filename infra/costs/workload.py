"""What is asked of a controller, and how long that takes."""

from __future__ import annotations

import dataclasses
import math

from infra.costs.measured import Measured

CONTROLLERS = ("lambda", "fargate", "service", "instance", "http", "embedded")
ALWAYS_ON = ("service", "instance", "http")
DELIVERIES = ("sqs", "http")
POLLINGS = ("waiting", "always")
PLACES = ("region", "elsewhere")
TOPICS = ("one", "two")
DAYS = 365
MONTHS = 12
GB = 1 << 30
DAY_SECONDS = 86_400

# AWS: at 1,769 MB a function has one whole processor, in proportion below it
# (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html).
WHOLE_CPU_MEMORY_MB = 1769
# When AWS ends the function of the stack.
FUNCTION_TIMEOUT_SECONDS = 60
# Assumed, not measured on AWS: S3's two answers to a run, during which the function waits.
S3_WAIT_SECONDS = 0.06
# Assumed: an idle function stays warm for so long. AWS promises nothing
# (https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html); less is unusual.
KEEP_WARM_SECONDS = 300
# Both by S3's lifecycle rules, which run at midnight: a document expires half a day late on
# average, and is an old version, billed as before, for a day and a half more
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html).
EXPIRY_DAYS = 2
# A node lists its settings once a day, whatever it has been told (sidecar/settings).
LISTS_PER_DAY = 1
# Assumed: START, END, REPORT and INIT_START lines, and 26 bytes that are billed with each event.
PLATFORM_LOG_BYTES = 600
# Assumed: an S3 event as SNS filters it.
NOTICE_BYTES = 1024
# Assumed: what comes to the node in a cycle beside the plan and the notice: SNS' envelope with its
# signature, and the headers of five answers.
ENVELOPE_BYTES = 4096
LONG_POLL_SECONDS = 20
# Fargate's smallest task; AWS bills at least a minute, from the pull of the image on.
TASK_VCPU = 0.25
TASK_GB = 0.5
TASK_LEAST_SECONDS = 60
# Assumed, not measured: to find a place, pull the image and start.
TASK_START_SECONDS = 30
IMAGE_GB = 0.1
INSTANCE_DISK_GB = 8
# What a burstable machine may use of a processor for long: two of them, at its baseline
# (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html).
BASELINE_PROCESSORS = {
    f"{family}.{size}": processors
    for family in ("t3", "t3a", "t4g")
    for size, processors in (
        ("nano", 0.1),
        ("micro", 0.2),
        ("small", 0.4),
        ("medium", 0.4),
        ("large", 0.6),
    )
}
# Of any other machine: one processor plans.
OTHER_PROCESSORS = 1.0
# [cycle] samples and maximum_age as a node's file has them by default, and the rate at which
# samples count.
SAMPLING_RATE = 0.01
CYCLE_SAMPLES = 500_000
LEAST_CYCLES_PER_DAY = 24
# From PUT of the observation to the plan's arrival, without the planning: the thesis' cycle over
# AWS took 1,800 ms where planning beside the cache took 100 ms.
TRANSPORT_SECONDS = 1.7
# Assumed: to a machine in another zone of the region and back, with a new TLS connection.
HTTP_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Workload:
    """What is to be paid for.

    Attributes:
        cycles_per_day: observations of each node.
        servers: Redis servers (partitions) on each node.
        nodes: of the installation.
        nodes_per_cell: that share a topic and a function, at most.
        topics: ``two``: S3 tells the function of observations by a topic too, not itself.
        delivery: ``sqs`` or ``http``, how plans come to a node.
        place: of the nodes; in the stack's ``region``, where AWS bills no traffic between them and
            its services, or ``elsewhere``, outside of AWS.
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
    nodes_per_cell: int = 40
    place: str = "region"
    topics: str = "one"
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
        """Return the solver's runs a year, for all nodes."""
        return self.cycles_per_day * self.nodes * DAYS

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """Return how many cells have how many nodes: the full ones, and one with the rest."""
        full, rest = divmod(self.nodes, self.nodes_per_cell)
        cells = ((full, self.nodes_per_cell), (1, rest))
        return tuple((number, nodes) for number, nodes in cells if number and nodes)

    @property
    def yearly_filterings(self) -> float:
        """Count the filterings of SNS in a year: each notice is checked against the subscription of
        every node in the cell."""
        pairs = sum(number * nodes**2 for number, nodes in self.cells)
        return self.cycles_per_day * DAYS * pairs


def slowdown(memory_mb: int) -> float:
    """Return the seconds that a function of ``memory_mb`` needs for one of a whole processor."""
    return max(1.0, WHOLE_CPU_MEMORY_MB / memory_mb)


def cold_ratio(cycles_per_day: float, nodes: int) -> float:
    """Return the share of runs that start cold, of a function that ``nodes`` keep warm together.

    Nodes keep no step with each other, so runs come as a Poisson process does. A run is cold if
    none came in the idle time before it.
    """
    rate_per_second = cycles_per_day * nodes / DAY_SECONDS
    return math.exp(-rate_per_second * KEEP_WARM_SECONDS)


def yearly_cold_starts(workload: Workload) -> float:
    """Return the cold starts a year of all cells' functions."""
    yearly_cycles = workload.cycles_per_day * DAYS
    return sum(
        number * nodes * yearly_cycles * cold_ratio(workload.cycles_per_day, nodes)
        for number, nodes in workload.cells
    )


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
    """Return the seconds from the observation to its plan's arrival.

    A function that is called less often than it stays warm counts with a cold start.
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
    if controller == "http":
        return HTTP_SECONDS + solve
    if controller == "service":
        return TRANSPORT_SECONDS + S3_WAIT_SECONDS + solve / TASK_VCPU
    return TRANSPORT_SECONDS + S3_WAIT_SECONDS + solve


def busy_processors(workload: Workload, measured: Measured) -> float:
    """Processors that planning keeps busy, on average."""
    solve = measured.run_cpu_seconds(workload.servers)
    return workload.cycles_per_day * workload.nodes * solve / DAY_SECONDS


def machines(controller: str, workload: Workload, measured: Measured) -> int:
    """Return how many of its machines an always-on controller needs, each as busy as it may be for
    long; 0 for what is not always on."""
    if controller not in ALWAYS_ON:
        return 0
    each = BASELINE_PROCESSORS.get(workload.instance_type, OTHER_PROCESSORS)
    if controller == "service":
        each = TASK_VCPU
    return max(1, math.ceil(busy_processors(workload, measured) / each))


def cycles_per_day(reads_per_second: float) -> float:
    """Return the cycles a day of a node with so many reads, by default settings. A cycle ends with
    its samples, or after an hour. Early cycles, which an odd load brings, come on top."""
    by_samples = reads_per_second * DAY_SECONDS * SAMPLING_RATE / CYCLE_SAMPLES
    return max(LEAST_CYCLES_PER_DAY, by_samples)


def task_work_seconds(workload: Workload, measured: Measured) -> float:
    cpu = measured.init_cpu_seconds + measured.run_cpu_seconds(workload.servers)
    return cpu / TASK_VCPU + S3_WAIT_SECONDS
