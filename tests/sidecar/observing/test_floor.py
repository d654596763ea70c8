"""``floor = "before"``: by its curve a server hits as often as before, whatever others need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.observing.observed_minima import floor_bytes
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.planning.planner import make_plan
from tests.sidecar.observing.test_observer import _estimate, _observe, _seen

MB = 1 << 20
SAME = 0.001


@st.composite
def curves(draw: st.DrawFn) -> MissRatioCurve:
    sizes = sorted(draw(st.sets(st.integers(0, 500), min_size=1, max_size=8)))
    count = len(sizes)
    ratios = draw(st.lists(st.integers(0, 100), min_size=count, max_size=count))
    falling = np.array(sorted(ratios, reverse=True)) / 100
    return MissRatioCurve(np.array(sizes, dtype=float), falling)


@given(curves(), st.integers(1, 600))
def test_it_is_the_least_size_that_hits_as_often(curve: MissRatioCurve, before: int) -> None:
    most = curve.miss_ratio(before) + SAME
    slow = next(size for size in range(before + 1) if curve.miss_ratio(size) <= most + 1e-12)
    assert floor_bytes(curve, before) == slow


def test_it_is_what_a_plan_may_go_down_to() -> None:
    """Whose curve falls to its end keeps what it had; whose curve is level from 4 MB gives."""
    level = MissRatioCurve(np.array([1.0 * MB, 4.0 * MB]), np.array([0.9, 0.1]))
    steep = MissRatioCurve(np.array([1.0 * MB, 64.0 * MB]), np.array([0.9, 0.0]))
    plans = {}
    for floor in ("none", "before"):
        seen = []
        for name, curve, rate in (("a", level, 1.0), ("b", steep, 1.0), ("c", steep, 5000.0)):
            one = _seen(
                _estimate(curve=curve, request_rate_per_second=rate),
                backend_latency_seconds=0.1,
                floor="none" if name == "c" else floor,
            )
            config = replace(one.config, name=name)
            seen.append(replace(one, config=config, installed_bytes=16 * MB))
        observation = _observe(*seen)
        planning = replace(observation.planning, maximum_step_ratio=None)
        plan = make_plan(replace(observation, planning=planning), now_seconds=1000.0)
        plans[floor] = {one.name: one.maxmemory_bytes for one in plan.servers}
    most = steep.miss_ratio(16 * MB) + SAME
    assert steep.miss_ratio(plans["none"]["b"]) > most
    assert steep.miss_ratio(plans["before"]["b"]) <= most
    assert level.miss_ratio(plans["before"]["a"]) <= 0.1 + SAME
    assert plans["before"]["a"] < 5 * MB


def test_floors_that_do_not_fit_get_a_part_each_beside_the_minima() -> None:
    steep = MissRatioCurve(np.array([1.0 * MB, 200.0 * MB]), np.array([0.9, 0.0]))
    seen = []
    for name, before in (("a", 40), ("b", 80), ("c", 16)):
        one = _seen(
            _estimate(curve=steep),
            backend_latency_seconds=0.1,
            floor="none" if name == "c" else "before",
            minimum_bytes=4 * MB,
        )
        config = replace(one.config, name=name)
        seen.append(replace(one, config=config, installed_bytes=before * MB))
    minima = {one.name: one.minimum_bytes for one in _observe(*seen).servers}
    assert minima["c"] == 4 * MB
    assert 64 * MB - 2 <= sum(minima.values()) <= 64 * MB
    assert (minima["b"] - 4 * MB) / (minima["a"] - 4 * MB) == pytest.approx(76 / 36, rel=0.02)


@pytest.mark.parametrize("installed", [None, 0])
def test_without_a_size_before_there_is_no_floor(installed: int | None) -> None:
    seen = replace(
        _seen(_estimate(), backend_latency_seconds=0.1, floor="before"), installed_bytes=installed
    )
    assert _observe(seen).servers[0].minimum_bytes == 2 * MB
