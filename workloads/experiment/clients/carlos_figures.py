"""What the runs of chapter 7's recipe come to: speed-ups, spreads, and what is more than chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from workloads.experiment.clients.carlos_runs import WAYS, WORKLOADS
from workloads.experiment.harness.study import Data

SIGNIFICANT = 0.05
METRICS = {"latency": "windows_mean_seconds", "throughput": "windows_per_second"}


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
    """Mean latency of each seed if each application asked as often as with equal shares.

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
