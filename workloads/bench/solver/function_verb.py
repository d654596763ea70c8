"""``python -m workloads bench function > infra/costs/measured.json``: what the bills rest on.

Document sizes, and the function's time and memory. ``infra`` could not measure them: it knows the
function only as a folder to bundle.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import io
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np

from sidecar.curves.curve_points import simplified
from sidecar.curves.miss_ratio_histogram import EDGES_BYTES
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.function.answering import log_plan
from solver_lambda.function.object_store import connect_to
from solver_lambda.planning.planner import make_plan

HELP = (
    "Measure what the cost model in infra/costs counts with, and print it as JSON for "
    "infra/costs/measured.json: sizes of the documents, processor time and memory of the function."
)
S3 = urlsplit("https://s3.amazonaws.com")
BUDGET_BYTES = 16 << 30
SERVERS = (1, 3, 7, 8, 20, 100)
FRESH_PROCESSES = 9
WARM_RUNS = 15
HOW = (
    "python -m workloads bench function, one core of an x86-64 virtual machine (Python 3.11) "
    "that others used too: processor seconds, not wall-clock. init: a new process imports the "
    "handler, makes its first plan and reads the certificates that TLS trusts, less a warm run, "
    "median of 9 processes. run: read an observation, make and write the plan, median of 15 warm "
    "runs; S3's answers are not in it. Sizes: an observation of 100 servers with curves of 20,000 "
    "sampled distances on a budget of 16 GiB, its plan and its log line, split into a part for the "
    "node and one for each server."
)


def realistic_curve(random: np.random.Generator) -> MissRatioCurve:
    """A curve as the sidecar makes it: an empirical distribution of distances, simplified."""
    distances = np.exp(
        random.normal(np.log(BUDGET_BYTES) - random.uniform(2, 6), random.uniform(1, 2.5), 20_000)
    )
    edges = EDGES_BYTES[(EDGES_BYTES > 1 << 20) & (EDGES_BYTES <= BUDGET_BYTES)]
    tails = 1 - np.searchsorted(np.sort(distances), edges) / len(distances)
    return simplified(edges, 0.02 + 0.98 * tails)


def realistic_observation(servers: int, seed: int = 0) -> Observation:
    """An observation of a 16 GiB node, every field filled in; another seed, another load."""
    random = np.random.default_rng((servers, seed) if seed else servers)
    share = BUDGET_BYTES // servers
    return Observation(
        node="cache-node-17",
        cycle=1_795_000_000,
        made_at_seconds=1_795_000_000.123456,
        window_seconds=3600.012345,
        budget_bytes=BUDGET_BYTES,
        unit_bytes=max(65_536, BUDGET_BYTES >> 14),
        servers=tuple(
            ServerObservation(
                name=f"checkout-{i:03d}",
                maxmemory_bytes=share,
                minimum_bytes=share // 8,
                maximum_bytes=BUDGET_BYTES,
                weight=1.0 + i % 3,
                request_rate_per_second=float(random.uniform(100, 10_000)),
                cache_latency_seconds=0.000213,
                backend_latency_seconds=float(random.uniform(0.005, 0.2)),
                backend_latency_source="measured",
                miss_ratio=float(random.uniform(0.02, 0.4)),
                curve=realistic_curve(random),
                curve_error_ratio=0.0031415926,
                sampled_objects=8192,
                mean_object_bytes=812.123456,
                changed_at_seconds=1_794_990_000.5,
                settings_version="3f2a9c1d5e7b",
                installed_bytes=share,
            )
            for i in range(servers)
        ),
    )


def answered(text: bytes) -> AdaptationPlan:
    """Return what the function does with an observation, but for S3's answers."""
    observation = Observation.loads(text, "measurement")
    plan = make_plan(observation, now_seconds=observation.made_at_seconds + 1)
    plan.dumps()
    for _ in ("GET", "PUT"):
        connect_to(S3)
    return plan


def document_sizes() -> dict[str, dict[str, int]]:
    """Return bytes of observation, plan and log line: for the node, and for each server."""
    many = realistic_observation(SERVERS[-1])
    one = dataclasses.replace(many, servers=many.servers[:1])
    twice = dataclasses.replace(
        many, servers=(many.servers[0], dataclasses.replace(many.servers[0], name="checkout-999"))
    )
    sizes = {}
    for name, of_one, of_twice, of_many in zip(
        ("observation_bytes", "plan_bytes", "log_bytes"),
        *(_sizes(observation) for observation in (one, twice, many)),
        strict=True,
    ):
        node = 2 * of_one - of_twice
        sizes[name] = {"node": node, "server": round((of_many - node) / len(many.servers))}
    return sizes


def _sizes(observation: Observation) -> tuple[int, int, int]:
    text = observation.dumps()
    plan = answered(text)
    with contextlib.redirect_stdout(io.StringIO()) as log:
        log_plan(plan, written=True)
    return len(text), len(plan.dumps()), len(log.getvalue())


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds that ``work`` takes in this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def warm_run_seconds(servers: int) -> float:
    """Return the median processor seconds of ``WARM_RUNS`` runs."""
    text = realistic_observation(servers).dumps()
    answered(text)
    return statistics.median(processor_seconds(lambda: answered(text)) for _ in range(WARM_RUNS))


def first_run() -> tuple[float, int]:
    """Processor seconds of a new process up to its first plan, and its peak memory in bytes."""
    code = (
        "import sys, time, resource; text = sys.stdin.buffer.read();"
        "from urllib.parse import urlsplit; import solver_lambda.function.handler as handler;"
        "from solver_lambda.function.object_store import connect_to;"
        "observation = handler.Observation.loads(text, 'measurement');"
        "handler.make_plan(observation, now_seconds=0.0).dumps();"
        f"[connect_to(urlsplit('{S3.geturl()}')) for _ in range(2)];"
        "print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=realistic_observation(3).dumps(),
        capture_output=True,
        check=True,
    )
    seconds, memory = done.stdout.split()
    return float(seconds), int(memory)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb has no options."""


def run(_: argparse.Namespace) -> int:
    """Measure and print; exit code 0."""
    firsts = [first_run() for _ in range(FRESH_PROCESSES)]
    runs = {servers: warm_run_seconds(servers) for servers in SERVERS}
    measured = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "how": HOW,
        "init_cpu_seconds": round(statistics.median(s for s, _ in firsts) - runs[3], 4),
        "run_cpu_seconds": {str(servers): round(seconds, 5) for servers, seconds in runs.items()},
        "peak_memory_bytes": max(
            *(memory for _, memory in firsts),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        ),
        **document_sizes(),
    }
    json.dump(measured, sys.stdout, indent=2)
    print()
    return 0
