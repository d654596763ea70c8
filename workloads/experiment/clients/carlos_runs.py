"""The recipe's runs, two nodes side by side under the same workers, and what they come to."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.traces.trace_reader import TraceError, load_trace
from workloads.arguments import TWITTER, trace_file
from workloads.experiment.clients.closed_loop import Answers, Application, play_closed
from workloads.experiment.study import Data, Scope, StudyError
from workloads.load import Load, key_sizes, zipf_keys
from workloads.local_server import equal_shares, running_servers, settled_sizes
from workloads.node_programs import NodeServer, NodeSettings, moves_in, running_sidecar

WORKLOADS = ("Replay", "Zipf")
WAYS = {"equal": "equal shares", "spreds": "SPREDS"}
# Of each of the four applications; the thesis' have 8 each.
WORKERS = (16, 8, 4, 4)
BUDGETS_BYTES = {"small": 16 << 20, "large": 32 << 20}
REQUESTS = 30_000  # more than an application makes in a run
# One application's objects alone are more than the large caches hold together.
ZIPF_KEYS, ZIPF_SKEW = 6_000, 0.5
STAND_IN_KEYS, STAND_IN_SKEW = 20_000, 0.9
MEAN_BYTES = 8 << 10
BACKEND_SECONDS = 0.015
CYCLE_SECONDS, QUICK_CYCLE_SECONDS = 1.0, 0.5
WARM_SECONDS, RUN_SECONDS = 6.0, 10.0
QUICK_WARM_SECONDS, QUICK_RUN_SECONDS = 0.0, 1.0
WINDOW_SECONDS = 0.5
PERCENTILES = (5, 25, 50, 75, 95, 99)
SIGNIFICANT = 0.05
METRICS = {"latency": "windows_mean_seconds", "throughput": "windows_per_second"}


def measure(scope: Scope) -> Data:
    """Each seed plays each workload with each budget, once on both nodes at the same time.

    Raises:
        StudyError: the trace cannot be read.
    """
    trace = trace_file(scope.traces, TWITTER)
    limit = 3 * REQUESTS if scope.is_quick else None
    keys = _trace_keys(trace, limit) if trace.exists() else None
    budgets = ["small"] if scope.is_quick else list(BUDGETS_BYTES)
    workloads = WORKLOADS[:1] if scope.is_quick else WORKLOADS
    plan = [(w, size, seed) for seed in scope.seeds for w in workloads for size in budgets]
    runs = []
    for done, (workload, size, seed) in enumerate(plan):
        scope.progress(f"{workload}, {size} caches", done / len(plan))
        loads = _loads(workload, seed, keys)
        # Whose workers come first in the loop may matter by a little.
        ways = list(WAYS)[:: 1 if seed % 2 else -1]
        found = _run(loads, BUDGETS_BYTES[size], ways, scope.is_quick)
        runs.append({"workload": workload, "size": size, "seed": seed, **found})
    return {
        "has_trace": keys is not None,
        "run_seconds": QUICK_RUN_SECONDS if scope.is_quick else RUN_SECONDS,
        "warm_seconds": QUICK_WARM_SECONDS if scope.is_quick else WARM_SECONDS,
        "window_seconds": WINDOW_SECONDS,
        "cycle_seconds": QUICK_CYCLE_SECONDS if scope.is_quick else CYCLE_SECONDS,
        "budgets_bytes": BUDGETS_BYTES,
        "runs": runs,
    }


def _trace_keys(path: Path, limit: int | None) -> npt.NDArray[np.uint64]:
    try:
        return load_trace(path, limit=limit).keys
    except TraceError as error:
        raise StudyError(str(error)) from error


def _loads(workload: str, seed: int, trace: npt.NDArray[np.uint64] | None) -> list[Load]:
    """Make a load for each application: sections of the trace, or draws of their own."""
    random = np.random.default_rng(seed)
    loads = []
    for number in range(len(WORKERS)):
        if workload == "Replay" and trace is not None:
            start = int(random.integers(len(trace) - REQUESTS))
            keys = trace[start : start + REQUESTS]
            what = f"requests {start:,} to {start + REQUESTS:,}"
        elif workload == "Replay":
            keys = zipf_keys(STAND_IN_KEYS, STAND_IN_SKEW, REQUESTS, random)
            what = "generated in place of the trace"
        else:
            keys = zipf_keys(ZIPF_KEYS, ZIPF_SKEW, REQUESTS, random)
            what = "generated"
        _, places = np.unique(keys, return_inverse=True)
        sizes = key_sizes(int(places.max()) + 1, MEAN_BYTES, random)
        loads.append(
            Load(
                [b"%d:%d" % (number, key) for key in keys.tolist()],
                sizes[places].tolist(),
                random.exponential(BACKEND_SECONDS, REQUESTS),
                what,
            )
        )
    return loads


def _run(loads: list[Load], budget_bytes: int, ways: list[str], is_quick: bool) -> Data:
    names = [f"application-{number + 1}" for number in range(len(loads))]
    cycle_seconds = QUICK_CYCLE_SECONDS if is_quick else CYCLE_SECONDS
    with tempfile.TemporaryDirectory(prefix="spreds-recipe-") as name, ExitStack() as stack:
        equal = equal_shares(names, budget_bytes)
        nodes = {way: stack.enter_context(running_servers(equal)) for way in ways}
        node = NodeSettings(
            [NodeServer(server, 1.0, BACKEND_SECONDS) for server in names],
            budget_bytes,
            cycle_seconds,
            cycle_seconds / 60,
        )
        stack.enter_context(running_sidecar(node, nodes["spreds"], Path(name)))
        applications = [
            Application(server.socket, workers, load)
            for servers in nodes.values()
            for server, workers, load in zip(servers.values(), WORKERS, loads, strict=True)
        ]
        answers = play_closed(applications, QUICK_RUN_SECONDS if is_quick else RUN_SECONDS)
        return {
            "moves": moves_in(Path(name)),
            "ways": {
                way: {
                    **_summary(answers, place * len(names), len(names), is_quick),
                    "sizes_bytes": list(settled_sizes(nodes[way]).values()),
                }
                for place, way in enumerate(ways)
            },
        }


def _summary(answers: Answers, first: int, count: int, is_quick: bool) -> Data:
    """Summarise the applications of one node, after the caches are warm."""
    warm = QUICK_WARM_SECONDS if is_quick else WARM_SECONDS
    end = QUICK_RUN_SECONDS if is_quick else RUN_SECONDS
    ours = (answers.application >= first) & (answers.application < first + count)
    ours &= answers.at_seconds >= warm
    at, seconds = answers.at_seconds[ours], answers.seconds[ours]
    edges = np.arange(warm, end + WINDOW_SECONDS / 2, WINDOW_SECONDS)
    numbers = np.histogram(at, edges)[0]
    sums = np.histogram(at, edges, weights=seconds)[0]
    whose = answers.application[ours] - first
    counts = np.bincount(whose, minlength=count)
    return {
        "requests": len(seconds),
        "hit_ratio": float(answers.hits[ours].mean()),
        "mean_seconds": float(seconds.mean()),
        "per_second": len(seconds) / (end - warm),
        "percentiles_seconds": dict(
            zip(map(str, PERCENTILES), np.percentile(seconds, PERCENTILES).tolist(), strict=True)
        ),
        "applications_per_second": (counts / (end - warm)).tolist(),
        "applications_mean_seconds": (
            np.bincount(whose, weights=seconds, minlength=count) / counts.clip(1)
        ).tolist(),
        "windows_mean_seconds": (sums / numbers.clip(1)).tolist(),
        "windows_per_second": (numbers / WINDOW_SECONDS).tolist(),
    }


def cells(data: Data) -> Iterator[tuple[str, str, list[Data]]]:
    """Workload, size of the caches, and the runs of all seeds."""
    for workload in WORKLOADS:
        for size in data["budgets_bytes"]:
            runs = [
                run for run in data["runs"] if run["workload"] == workload and run["size"] == size
            ]
            if runs:
                yield workload, size, runs


def speed_ups(runs: list[Data]) -> list[float]:
    """Throughput with SPREDS over that with equal shares, of each seed."""
    return [
        run["ways"]["spreds"]["per_second"] / run["ways"]["equal"]["per_second"] for run in runs
    ]


def significance(runs: list[Data], metric: str) -> tuple[float, float]:
    """p-values of a one-way ANOVA, and of Mann and Whitney's test, over windows of all seeds.

    Seeds differ by much more than the ways do, so that each window counts over the mean of its
    seed's windows with equal shares. Windows of one run are not independent, as in the thesis.
    """
    from scipy import stats

    values: dict[str, list[float]] = {way: [] for way in WAYS}
    for run in runs:
        base = statistics.mean(run["ways"]["equal"][METRICS[metric]])
        for way, of in values.items():
            of += [value / base for value in run["ways"][way][METRICS[metric]]]
    equal, spreds = values.values()
    anova = float(stats.f_oneway(equal, spreds).pvalue)
    ranks = float(stats.mannwhitneyu(equal, spreds).pvalue)
    # Of windows that are all alike, nothing can be said.
    return (1.0 if math.isnan(anova) else anova), ranks


def interquartile_seconds(runs: list[Data], way: str) -> float:
    """Third quartile of latency less the first; median over seeds."""
    percentiles = [run["ways"][way]["percentiles_seconds"] for run in runs]
    return float(statistics.median(one["75"] - one["25"] for one in percentiles))


def alike_mean_seconds(runs: list[Data], way: str) -> list[float]:
    """Return the mean latency of each seed if each application asked as often as with equal shares.

    In a closed loop a faster application asks more, so that all answers of two ways, taken
    together, have other proportions.
    """
    found = []
    for run in runs:
        rates = run["ways"]["equal"]["applications_per_second"]
        means = run["ways"][way]["applications_mean_seconds"]
        found.append(sum(r * m for r, m in zip(rates, means, strict=True)) / sum(rates))
    return found


def application_speed_ups(runs: list[Data]) -> list[float]:
    """Speed-up of each, median over seeds; the one with most workers first."""
    ratios = [
        [
            after / before
            for before, after in zip(
                *(run["ways"][way]["applications_per_second"] for way in WAYS), strict=True
            )
        ]
        for run in runs
    ]
    return [statistics.median(of) for of in zip(*ratios, strict=True)]
