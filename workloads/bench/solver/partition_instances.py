"""Partition problems to measure solvers on, and their exact optimum by the slow, obvious way.

A Dirichlet search that narrows around one best split: what Algorithm 8 is measured beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sidecar.mrc.trace_curve import estimate_curve
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.trace_reader import load_trace
from solver_lambda.documents.curve import FloatArray, MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.planning.problem_grid import build_problem
from solver_lambda.planning.size_ranges import SizeRange
from solver_lambda.solvers.dirichlet import units_of_splits
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem
from workloads.arguments import ORM_BUSY, ORM_NIGHT, TWITTER, trace_file

UNIT_BYTES = 1 << 20
TRACES = (ORM_BUSY, ORM_NIGHT, TWITTER)
_SLICE_REQUESTS = 100_000
_SLICES_OF_A_TRACE = 10

MakeCurve = Callable[[np.random.Generator, int], MissRatioCurve]


def _ramps(generator: np.random.Generator, units: int) -> MissRatioCurve:
    """Draw up to 30 random points, joined by straight lines."""
    points = int(generator.integers(2, 31))
    sizes = np.sort(generator.choice(units + 1, min(points, units + 1), replace=False))
    return _curve(sizes, -np.sort(-generator.random(len(sizes))))


def _steps(generator: np.random.Generator, units: int) -> MissRatioCurve:
    """Draw up to 7 cliffs and flat stretches between them: loops over working sets."""
    cliffs = np.sort(generator.choice(units, int(generator.integers(1, 8)), replace=False)) + 1
    ratios = -np.sort(-generator.random(len(cliffs) + 1))
    sizes = np.unique(np.concatenate(([0], cliffs - 1, cliffs)))
    return _curve(sizes, ratios[np.searchsorted(cliffs, sizes, side="right")])


def _rough(generator: np.random.Generator, units: int) -> MissRatioCurve:
    """A fall of another random, heavy-tailed height at each unit."""
    falls = generator.exponential(1.0, units + 1) ** 3
    return _curve(np.arange(units + 1), 1 - np.cumsum(falls) / falls.sum())


def _smooth(generator: np.random.Generator, units: int) -> MissRatioCurve:
    """1 / (1 + (m / m₀)^a): convex, or S-shaped for a > 1."""
    half = generator.uniform(units / 20, units)
    sizes = np.arange(units + 1)
    ratios = 1 / (1 + (sizes / half) ** generator.uniform(0.3, 3.0))
    return _curve(sizes, ratios * generator.uniform(0.2, 1.0))


def _smooth_with_cliff(generator: np.random.Generator, units: int) -> MissRatioCurve:
    """A smooth curve with one cliff: the hardest for the certificate."""
    smooth = _smooth(generator, units)
    above = smooth.sizes_bytes < generator.integers(0, units) * UNIT_BYTES
    return MissRatioCurve(smooth.sizes_bytes, 0.7 * smooth.miss_ratios + 0.3 * above)


def _curve(units: np.ndarray, ratios: FloatArray) -> MissRatioCurve:
    return MissRatioCurve(units * float(UNIT_BYTES), np.clip(ratios, 0.0, 1.0))


RANDOM_CURVES: dict[str, MakeCurve] = {
    "ramps": _ramps,
    "steps": _steps,
    "rough": _rough,
    "smooth": _smooth,
    "smooth with cliff": _smooth_with_cliff,
}


def any_random_curve(generator: np.random.Generator, units: int) -> MissRatioCurve:
    """A curve of a random kind."""
    kinds = list(RANDOM_CURVES.values())
    return kinds[int(generator.integers(len(kinds)))](generator, units)


def trace_slices(folder: Path) -> Iterator[TraceChunk]:
    """Stretches of the real traces that are in ``folder``, none if it is missing."""
    for name in TRACES:
        path = trace_file(folder, name)
        if path.exists():
            trace = load_trace(path, limit=_SLICE_REQUESTS * _SLICES_OF_A_TRACE)
            for start in range(0, len(trace) - _SLICE_REQUESTS + 1, _SLICE_REQUESTS):
                part = slice(start, start + _SLICE_REQUESTS)
                yield TraceChunk(
                    trace.times_seconds[part], trace.keys[part], trace.sizes_bytes[part]
                )


def curves_of_traces(folder: Path) -> MakeCurve | None:
    """Makes curves cut from traces: exact LRU over objects, cold misses included.

    A slice's curve is stretched so that its working set takes between a tenth and the whole of
    the memory. ``None`` if there are no traces.
    """
    slices = [estimate_curve([part]) for part in trace_slices(folder)]
    if not slices:
        return None

    def make(generator: np.random.Generator, units: int) -> MissRatioCurve:
        found = slices[int(generator.integers(len(slices)))]
        stretch = units * generator.uniform(0.1, 1.0) / found.sizes[-1]
        sizes = np.arange(units + 1)
        return _curve(sizes, np.array(found.miss_ratios_at(sizes / stretch)))

    return make


def node_observation(
    generator: np.random.Generator,
    servers: int,
    units: int,
    make_curve: MakeCurve,
    mean_object_bytes: float | None = None,
) -> Observation:
    """A node with ``units`` of memory, in equal parts; weights, rates and backends are random."""
    return Observation(
        node="bench",
        cycle=0,
        made_at_seconds=0.0,
        window_seconds=60.0,
        budget_bytes=units * UNIT_BYTES,
        unit_bytes=UNIT_BYTES,
        servers=tuple(
            ServerObservation(
                name=f"server-{number:04}",
                maxmemory_bytes=units * UNIT_BYTES // servers,
                minimum_bytes=0,
                weight=float(generator.uniform(0.05, 5.0)),
                request_rate_per_second=float(generator.uniform(1.0, 1000.0)),
                cache_latency_seconds=0.0002,
                backend_latency_seconds=float(generator.uniform(0.001, 0.5)),
                mean_object_bytes=mean_object_bytes,
                curve=make_curve(generator, units),
            )
            for number in range(servers)
        ),
    )


def partition_problem(
    generator: np.random.Generator, servers: int, units: int, make_curve: MakeCurve
) -> PartitionProblem:
    """The problem of such a node, at no cost of moving."""
    observation = node_observation(generator, servers, units, make_curve)
    return build_problem(
        observation,
        {server.name: SizeRange(0, observation.budget_bytes) for server in observation.servers},
        budget_bytes=observation.budget_bytes,
        moving=False,
    )


def exact_optimum(problem: PartitionProblem) -> float:
    """The greatest value of a split, by the textbook's dynamic programme over the capacity."""
    best = np.zeros(problem.capacity + 1)
    for curve, limit in zip(problem.utilities, problem.limits, strict=True):
        after = np.full_like(best, -np.inf)
        for units in range(int(limit) + 1):
            part = after[units:]
            np.maximum(part, best[: len(best) - units] + curve[units], out=part)
        best = after
    return float(best.max())


_SMALLEST_COORDINATE = 1e-9


@dataclass(frozen=True)
class NarrowingSearch:
    """Random search on the simplex of splits, ever closer around the best one found.

    No population and no kernel, as Algorithm 8 has them: each round draws ``samples`` splits from
    Dir(α), keeps the best split x̂ seen so far, and goes on with α = spread + γ·x̂.

    Attributes:
        samples: a round.
        rounds: at most.
        first_concentration, last_concentration: γ of the first and the last round, for each
            server. It grows geometrically: the search narrows by a constant factor a round.
        spread: keeps each α away from 0, so that no server is given up for good.
        patience: stop after so many rounds without a better split.
        seed: of the draws.
    """

    samples: int = 128
    rounds: int = 48
    first_concentration: float = 0.1
    last_concentration: float = 300.0
    spread: float = 0.03
    patience: int = 12
    seed: int = 0

    def solve(self, problem: PartitionProblem) -> IntArray:
        """Units of each server, shape (n,)."""
        servers = len(problem.limits)
        generator = np.random.default_rng(self.seed)
        growth = (self.last_concentration / self.first_concentration) ** (
            1 / max(1, self.rounds - 2)
        )
        concentration = servers * self.first_concentration
        best_split = np.full(servers, 1 / servers)
        best_units: IntArray = units_of_splits(best_split[None, :], problem)[0]
        best_value = problem.value(best_units)
        alpha = np.ones(servers)
        failures = 0
        for _ in range(self.rounds):
            splits = np.maximum(generator.dirichlet(alpha, self.samples), _SMALLEST_COORDINATE)
            splits /= splits.sum(axis=1, keepdims=True)
            units = units_of_splits(splits, problem)
            values = problem.utilities[np.arange(servers), units].sum(axis=1)
            winner = int(values.argmax())
            failures += 1
            if values[winner] > best_value:
                best_value = float(values[winner])
                best_split, best_units = splits[winner], units[winner]
                failures = 0
            if failures == self.patience:
                break
            alpha = self.spread + concentration * best_split
            concentration *= growth
        return best_units
