"""What sampling costs a server: each state against another one, measured in the same round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workloads.bench.sampling.paired_ratios import MedianRatio, Target, median_ratio
from workloads.bench.sampling.slices import PERCENTILES, Kind, Slice
from workloads.bench.sampling.states import (
    MODULE,
    MONITOR,
    OFF,
    OFF_AGAIN,
    OTHER_STOCK,
    PATCH,
    STOCK,
    STOCK_AGAIN,
    State,
)

METRICS = {
    "throughput": lambda s: s.throughput,
    "p50": lambda s: s.latency_seconds[PERCENTILES.index(50.0)],
    "p99": lambda s: s.latency_seconds[PERCENTILES.index(99.0)],
    "p99.9": lambda s: s.latency_seconds[PERCENTILES.index(99.9)],
    "CPU per operation": lambda s: s.cpu_seconds,
    "CPU per operation, all threads": lambda s: s.process_cpu_seconds,
}


class Comparison(NamedTuple):
    """``state`` is measured against ``base``; ``null`` too, which is the same server as ``base``,
    so that what it differs is what the machine made it differ."""

    state: State
    base: State
    null: State

    def __str__(self) -> str:
        mark = " (null)" if self.state == self.null else ""
        return f"{self.state.name} / {self.base.name}{mark}"


# Within one process what differs between processes of the same file, some per cent, cancels.
# Only the patch against the stock server needs two processes.
COMPARISONS = [
    *(Comparison(state, STOCK, STOCK_AGAIN) for state in (STOCK_AGAIN, *MODULE, MONITOR)),
    *(Comparison(state, OFF, OFF_AGAIN) for state in (OFF_AGAIN, *PATCH)),
    *(Comparison(state, STOCK, OTHER_STOCK) for state in (OTHER_STOCK, OFF_AGAIN, *PATCH)),
]
_IN_USE = {
    "throughput": Target(0.99, at_most=False),
    "p50": Target(1.01),
    "CPU per operation": Target(1.01),
}
_CONSUMER_FAILS = {"throughput": Target(0.95, at_most=False)}


class Measured(NamedTuple):
    """One slice of one round."""

    round: int
    kind: Kind
    state: State
    slice: Slice


class Ratio(NamedTuple):
    """All rounds of one comparison."""

    comparison: Comparison
    kind: Kind
    metric: str
    found: MedianRatio


class Verdict(NamedTuple):
    """What a ratio shows about its target; ``null`` is the ratio of the null comparison."""

    ratio: Ratio
    target: Target
    null: MedianRatio

    @property
    def word(self) -> str:
        return self.target.verdict(self.ratio.found, self.null)

    def __str__(self) -> str:
        comparison, kind, metric, found = self.ratio
        return (
            f"{comparison}, {kind}, {metric} {self.target}: {found}, null {self.null}: {self.word}"
        )


def ratios(measured: Sequence[Measured]) -> list[Ratio]:
    """All comparisons, kinds and metrics."""
    kinds = list(dict.fromkeys(one.kind for one in measured))
    rounds = sorted({one.round for one in measured})
    slices: dict[tuple[int, Kind, State], list[Slice]] = {}
    for one in measured:
        slices.setdefault((one.round, one.kind, one.state), []).append(one.slice)

    def values(state: State, kind: Kind, metric: str) -> list[float]:
        """One for each round: the geometric mean, where there is more than one slice."""
        return [
            math.exp(
                sum(math.log(METRICS[metric](s)) for s in slices[number, kind, state])
                / len(slices[number, kind, state])
            )
            for number in rounds
        ]

    return [
        Ratio(
            comparison,
            kind,
            metric,
            median_ratio(
                values(comparison.state, kind, metric), values(comparison.base, kind, metric)
            ),
        )
        for metric in METRICS
        for comparison in COMPARISONS
        for kind in kinds
    ]


def verdicts(found: Sequence[Ratio]) -> Iterator[Verdict]:
    """Of all ratios that have a target."""
    of = {(r.comparison.state, r.comparison.base, r.kind, r.metric): r.found for r in found}
    for ratio in found:
        state, base, null = ratio.comparison
        targets: dict[str, Target] = {}
        if state.rate == 0.01:
            targets = _IN_USE
        elif state.consumer != "listening":
            targets = _CONSUMER_FAILS
        if ratio.metric in targets:
            null_ratio = of[null, base, ratio.kind, ratio.metric]
            yield Verdict(ratio, targets[ratio.metric], null_ratio)
