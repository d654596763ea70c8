"""What is quick on large grids, against slow and obvious ways."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solver_lambda.documents.curve import FloatArray
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.planning import problem_grid
from solver_lambda.planning.budget_curve import what_if
from solver_lambda.planning.cost_of_moving import moving_misses, moving_seconds, written_per_read
from solver_lambda.planning.problem_grid import build_problem
from solver_lambda.planning.size_ranges import SizeRange
from solver_lambda.solvers import pareto
from solver_lambda.solvers.pareto import Choices, LossProgramme
from solver_lambda.solvers.solver import solve
from tests.solver_lambda.conftest import cliff_curve
from workloads.bench.solver.partition_instances import RANDOM_CURVES, node_observation

LEAST = 1e-9
NEVER = float("inf")


def misses_one_by_one(server: ServerObservation, sizes: FloatArray) -> FloatArray:
    """1/o · ∫ of 1 − r(b)/r(s), between neighbours of all sizes and all points of the curve, each
    r with what is written without a miss."""
    now, written = float(server.maxmemory_bytes), written_per_read(server)
    points = np.unique(np.concatenate((sizes, [now], server.curve.sizes_bytes)))
    ratios = np.maximum(server.curve.miss_ratio(points) + written, LEAST)
    until = {points[0]: 0.0}
    for left, right, first, last in zip(
        points[:-1], points[1:], ratios[:-1], ratios[1:], strict=True
    ):
        fall = first - last
        mean = np.log(first / last) / fall if fall >= LEAST * last else 1 / last
        until[right] = until[left] + (right - left) * mean
    extra = []
    for size in sizes.tolist():
        final = max(float(server.curve.miss_ratio(max(size, now))) + written, LEAST)
        filled = abs(until[size] - until[now])
        extra.append(max(0.0, abs(size - now) - final * filled) / server.mean_object_bytes)
    return np.array(extra)


@pytest.mark.parametrize("inserted", [None, 0.2, 3.0])
@pytest.mark.parametrize("kind", [*RANDOM_CURVES, "cliffs"])
@pytest.mark.parametrize("seed", range(20))
def test_the_misses_of_moves_are_sums_over_all_pieces_of_the_curve(
    make_observation, seed, kind, inserted
):
    generator = np.random.default_rng(seed)
    units = int(generator.integers(8, 60))
    if kind == "cliffs":
        curve = cliff_curve(generator, units << 20)
    else:
        curve = RANDOM_CURVES[kind](generator, units)
    server = dataclasses.replace(
        make_observation(1).servers[0],
        curve=curve,
        maxmemory_bytes=int(generator.integers(1, (units + 9) << 20)),
        mean_object_bytes=800.0,
        miss_ratio=0.3,
        inserted_per_read=inserted,
    )
    sizes = np.append(curve.sizes_bytes, generator.uniform(0, (units + 9) << 20, 20))
    slow = misses_one_by_one(server, sizes)
    assert moving_misses(server, sizes) == pytest.approx(slow, rel=1e-6, abs=1e-3)
    one_by_one = [float(moving_seconds(server, size, 3600.0)) for size in sizes]
    assert moving_seconds(server, sizes, 3600.0) == pytest.approx(one_by_one, rel=1e-6, abs=1e-12)


def choices(generator: np.random.Generator, most: int, thinned: float) -> Choices:
    """Losses with two dips, as a curve with a cliff has, for some of the totals."""
    totals = np.flatnonzero(generator.random(most) >= thinned)
    totals = totals if len(totals) else np.zeros(1, dtype=np.int64)
    dips = generator.uniform(0, most, 2)
    losses = np.abs(totals[:, None] - dips).min(axis=1) ** generator.uniform(0.5, 2)
    return Choices(totals, losses * generator.uniform(0.1, 1) + generator.random(len(totals)), None)


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_choices_are_the_least_of_all_pairs(seed, monkeypatch):
    monkeypatch.setattr(pareto, "_PAIRS_AT_ONCE", 8)
    monkeypatch.setattr(pareto, "_ROWS", 4)
    monkeypatch.setattr(pareto, "_COLUMNS", 16)
    monkeypatch.setattr(pareto, "_EACH", 3)
    generator = np.random.default_rng(seed)
    first, second = (
        choices(generator, int(generator.integers(2, 200)), generator.choice([0, 0.4, 0.9]))
        for _ in range(2)
    )
    most = int(generator.integers(1, 400))
    most_loss = float(generator.uniform(1, 200))
    programme = LossProgramme(
        price=1.0,
        capacity=most,
        free_below=most,
        most_loss=most_loss,
        deadline_seconds=NEVER,
    )
    best: dict[int, float] = {}
    for total, loss in zip(first.totals.tolist(), first.losses.tolist(), strict=True):
        for other, more in zip(second.totals.tolist(), second.losses.tolist(), strict=True):
            if total + other <= most and loss + more <= most_loss:
                best[total + other] = min(best.get(total + other, np.inf), loss + more)
    totals, losses = programme._sums(first, second, most)
    found = dict(zip(totals.tolist(), losses.tolist(), strict=True))
    assert {t: loss for t, loss in found.items() if loss <= most_loss} == best
    assert np.getbufsize() != pareto._BUFFER


def mean_in_every_unit(observation: Observation, budget_bytes: int) -> float:
    """The least mean access time with a budget, where each unit of it counts, and a proof."""
    problem = build_problem(
        observation,
        {server.name: SizeRange(1, budget_bytes) for server in observation.servers},
        budget_bytes=budget_bytes,
        moving=False,
    )
    planning = dataclasses.replace(observation.planning, epsilon_ratio=1e-5)
    return -solve(problem, planning, deadline_seconds=NEVER).value


@pytest.mark.parametrize("kind", RANDOM_CURVES)
@pytest.mark.parametrize("servers", [3, 12])
def test_more_memory_brings_what_it_can_but_for_a_coarse_unit_a_server(kind, servers, monkeypatch):
    monkeypatch.setattr(problem_grid, "MAX_UNITS", 1 << 17)
    generator = np.random.default_rng(servers)
    observation = node_observation(generator, servers, 65_536, RANDOM_CURVES[kind])
    for found in what_if(observation, observation.in_force_bytes, deadline_seconds=NEVER):
        less_bytes = found.budget_bytes - servers * found.budget_bytes // 16_384
        least = mean_in_every_unit(observation, found.budget_bytes) * (1 - 1e-5)
        most = mean_in_every_unit(observation, less_bytes) * (1 + 0.0005)
        assert least <= found.mean_access_time_seconds <= most
