"""Observations of nodes on which nothing is as it should be, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.planning_settings import PlanningSettings

UNIT_BYTES = 1 << 16
BUDGET_UNITS = 64
NOW_SECONDS = 1e6


def one_in(times: int, rare: st.SearchStrategy, usual: st.SearchStrategy) -> st.SearchStrategy:
    """Draw mostly the usual."""
    return st.integers(1, times).flatmap(lambda n: rare if n == times else usual)


@st.composite
def curves(draw: st.DrawFn) -> MissRatioCurve:
    """Flat, rough or with cliffs, over about the budget."""
    sizes = draw(st.lists(st.integers(0, BUDGET_UNITS), min_size=1, max_size=6, unique=True))
    ratios = draw(st.lists(st.integers(0, 20), min_size=len(sizes), max_size=len(sizes)))
    return MissRatioCurve(
        np.sort(np.array(sizes, dtype=float)) * UNIT_BYTES,
        -np.sort(-np.array(ratios, dtype=float)) / 20,
    )


BOUNDS = st.fixed_dictionaries(
    {},
    optional={
        "latency_bound_seconds": st.sampled_from([1e-5, 1e-3, 0.01, 0.04, 1.0]),
        "miss_bound_per_second": st.sampled_from([0.01, 5.0, 200.0]),
    },
)


@st.composite
def odd_servers(draw: st.DrawFn, name: str) -> ServerObservation:
    """Idle, quiet or busy; within its bounds or not; kept, uncertain, without a limit."""
    minimum = draw(st.sampled_from([0, 1, UNIT_BYTES, 3 * UNIT_BYTES + 5]))
    in_bounds = st.integers(4 * UNIT_BYTES, BUDGET_UNITS * UNIT_BYTES // 3)
    anywhere = st.integers(0, BUDGET_UNITS * UNIT_BYTES // 2)
    maxima = st.integers(max(1, minimum), BUDGET_UNITS * UNIT_BYTES)
    return ServerObservation(
        name=name,
        maxmemory_bytes=draw(one_in(10, anywhere, in_bounds)),
        minimum_bytes=minimum,
        maximum_bytes=draw(one_in(6, maxima, st.none())),
        weight=draw(st.sampled_from([1.0, 3.0, 0.0])),
        request_rate_per_second=draw(st.sampled_from([50.0, 1000.0, 1000.0, 0.0, 0.1])),
        cache_latency_seconds=draw(st.sampled_from([2e-4, 0.0])),
        backend_latency_seconds=draw(st.sampled_from([0.05, 0.001, 0.0, 2.0])),
        curve=draw(curves()),
        bounds=draw(BOUNDS),
        curve_error_ratio=draw(st.sampled_from([0.0] * 5 + [0.3])),
        mean_object_bytes=draw(st.sampled_from([None, 100.0])),
        changed_at_seconds=draw(st.sampled_from([None, None, NOW_SECONDS - 30])),
        keep_reason=draw(st.sampled_from([None] * 5 + ["replica"])),
    )


@st.composite
def odd_observations(draw: st.DrawFn) -> Observation:
    """Up to five such servers, whose sizes may be above or far below the budget."""
    count = draw(st.integers(1, 5))
    return Observation(
        node="n1",
        cycle=7,
        made_at_seconds=NOW_SECONDS,
        window_seconds=60.0,
        budget_bytes=BUDGET_UNITS * UNIT_BYTES,
        unit_bytes=UNIT_BYTES,
        servers=tuple(draw(odd_servers(f"server-{number}")) for number in range(count)),
        planning=PlanningSettings(
            method=draw(st.sampled_from(["auto", "dirichlet", "hill_climbing"])),
            certify=draw(st.booleans()),
            maximum_step_ratio=draw(st.sampled_from([None, None, 0.01, 0.3])),
            minimum_gain_ratio=draw(st.sampled_from([0.005, 0.0, 0.2])),
            dwell_seconds=draw(st.sampled_from([0.0, 600.0])),
            horizon_seconds=draw(st.sampled_from([3600.0, 10.0])),
        ),
    )
