"""A load that does not change leaves the sizes alone, and one that does moves them in turn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.planning.planner import make_plan

SAMPLES = 1000
CYCLE_SECONDS = 3600.0
# Cycles that the first moves may take.
SETTLING = 4


def closed_loop(base, cycles, load):
    """How many servers change in each cycle when every plan is applied."""
    in_force = {s.name: (s.maxmemory_bytes, None) for s in base.servers}
    changes = []
    for cycle in range(cycles):
        now = 1e6 + CYCLE_SECONDS * cycle
        servers = tuple(
            dataclasses.replace(
                load(s, number, cycle),
                maxmemory_bytes=in_force[s.name][0],
                changed_at_seconds=in_force[s.name][1],
            )
            for number, s in enumerate(base.servers)
        )
        plan = make_plan(
            dataclasses.replace(base, servers=servers, made_at_seconds=now), now_seconds=now
        )
        moved = [s for s in plan.servers if s.maxmemory_bytes != in_force[s.name][0]]
        for server in moved:
            in_force[server.name] = (server.maxmemory_bytes, now)
        changes.append(len(moved))
    return changes


def smooth_curve(generator: np.random.Generator, size_bytes: int) -> MissRatioCurve:
    """1 / (1 + (m / m₀)^a): near the best split, others are hardly worse."""
    sizes = np.linspace(0, size_bytes, 65)
    half = size_bytes * generator.uniform(0.05, 1)
    return MissRatioCurve(sizes, 1 / (1 + (sizes / half) ** generator.uniform(0.3, 3)))


def sampled(generator: np.random.Generator, curve: MissRatioCurve) -> MissRatioCurve:
    """The curve of one cycle's samples: each reads at one of the curve's depths, or misses."""
    falls = -np.diff(curve.miss_ratios, prepend=1.0, append=0.0)
    hits = generator.multinomial(SAMPLES, falls / falls.sum())[:-1]
    return MissRatioCurve(curve.sizes_bytes, 1 - np.cumsum(hits) / SAMPLES)


def changes_of_a_stationary_load(make_observation, kind, servers, seed, **planning):
    """Return the changes while the sizes settle, and those in each of 24 cycles after that."""
    base = make_observation(servers, seed=seed, **planning)
    generator = np.random.default_rng((servers, seed))
    if kind == "smooth":
        base = dataclasses.replace(
            base,
            servers=tuple(
                dataclasses.replace(s, curve=smooth_curve(generator, base.budget_bytes))
                for s in base.servers
            ),
        )

    def noisy(server, number, cycle):
        return dataclasses.replace(
            server,
            curve=sampled(generator, server.curve),
            request_rate_per_second=server.request_rate_per_second * generator.normal(1, 0.02),
            mean_object_bytes=800.0,
            curve_error_ratio=0.016,
        )

    changes = closed_loop(base, SETTLING + 24, noisy)
    return changes[:SETTLING], changes[SETTLING:]


@pytest.mark.parametrize("kind", ["smooth", "cliffs"])
@pytest.mark.parametrize(
    "minimum_gain_ratio",
    [
        pytest.param(
            0.005,
            marks=(
                pytest.mark.xfail(
                    strict=True, reason="the planner takes the noise of few samples for gain"
                ),
                pytest.mark.experiment,
            ),
        ),
        0.05,
    ],
)
def test_a_stationary_load_of_few_samples_changes_at_most_once_in_24_cycles(
    make_observation, kind, minimum_gain_ratio
):
    settled, restless = 0, {}
    for servers in range(2, 8):
        for seed in range(3):
            first, changes = changes_of_a_stationary_load(
                make_observation, kind, servers, seed, minimum_gain_ratio=minimum_gain_ratio
            )
            settled += any(first)
            cycles = sum(count > 0 for count in changes)
            if cycles > 1:
                restless[servers, seed] = cycles
    assert settled > 9, "most mixes have something to gain"
    assert restless == {}


def test_a_swinging_load_changes_no_more_than_the_dwell_rule_allows(make_observation):
    def swing(server, number, cycle):
        busy = 10.0 if number % 2 == cycle % 2 else 0.1
        rate = server.request_rate_per_second * busy
        return dataclasses.replace(server, request_rate_per_second=rate)

    # The dwell time is 6 cycles, so a server moves in 4 of 24 cycles at most.
    base = make_observation(4, seed=5, dwell_seconds=6 * CYCLE_SECONDS)
    changes = closed_loop(base, 24, swing)
    assert 0 < sum(changes) <= 4 * 4
