"""A plan's figures are our own, whatever its planner wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from sidecar.plans.plan_check import PlanRefusedError
from sidecar.plans.plan_figures import with_own_figures
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.planner import make_plan
from tests.examples import examples
from tests.sidecar.plans.test_plan_harm import MB, seen
from tests.solver_lambda.odd_observations import odd_observations

FIGURES = (
    *("hit_ratio_before", "hit_ratio", "eat_before_seconds", "eat_seconds"),
    "eat_installed_seconds",
)


@given(observation=odd_observations())
@settings(max_examples=examples(100), deadline=None)
def test_figures_of_our_planner_stay_as_they_are(observation: Observation) -> None:
    # As it is planned elsewhere, from the document, which rounds the curves.
    plan = make_plan(Observation.loads(observation.dumps(), "o.json"), now_seconds=1e6)
    ours = with_own_figures(plan, observation)
    assert ours.mean_access_time_seconds == pytest.approx(plan.mean_access_time_seconds, rel=1e-6)
    for one, other in zip(plan.servers, ours.servers, strict=True):
        for name in FIGURES:
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-5, abs=1e-6)
        assert replace(other, **dict.fromkeys(FIGURES)) == replace(
            one,
            **dict.fromkeys(FIGURES),
            marginal_gain_seconds_per_mebibyte=other.marginal_gain_seconds_per_mebibyte,
        )


def _lying(plan: AdaptationPlan) -> AdaptationPlan:
    servers = (
        replace(
            one,
            maxmemory_before_bytes=1,
            hit_ratio_before=0.01,
            hit_ratio=1.0,
            eat_before_seconds=9.9,
            eat_seconds=1e-6,
            marginal_gain_seconds_per_mebibyte=5.0,
            eat_installed_seconds=9.9,
            installed_bytes=1,
            request_rate_per_second=1e9,
            weight=one.weight and 9.9,
            settings_version=one.settings_version and "another",
        )
        for one in plan.servers
    )
    return replace(
        plan,
        observation_made_at_seconds=9e18,
        mean_access_time_before_seconds=9.9,
        mean_access_time_seconds=1e-6,
        servers=tuple(servers),
    )


@pytest.mark.parametrize("a_bytes", [16 * MB, 8 * MB], ids=["keep", "apply"])
def test_figures_of_a_planner_that_lies_are_not_told(a_bytes: int) -> None:
    # With half of what it needs, it is to grow.
    observation = seen(maxmemory_bytes=a_bytes, installed_bytes=12 * MB, settings_version="v1")
    plan = make_plan(observation, now_seconds=1e6)
    assert (plan.decision == "keep") == (a_bytes == 16 * MB)
    assert with_own_figures(_lying(plan), observation) == plan


def test_a_plan_that_keeps_all_sizes_has_no_others() -> None:
    observation = seen()
    plan = make_plan(observation, now_seconds=1e6)
    assert plan.decision == "keep"
    a, b = plan.servers
    other = replace(plan, servers=(replace(a, maxmemory_bytes=30 * MB), b))
    with pytest.raises(PlanRefusedError, match="it keeps all sizes, and has another of a") as told:
        with_own_figures(other, observation)
    assert told.value.code == "out_of_range"
