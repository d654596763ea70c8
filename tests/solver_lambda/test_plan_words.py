"""What a plan says to people agrees with its own numbers, whatever the node is like."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import HealthCheck, given, settings

from sidecar.control.plan_announcement import log_decision
from sidecar.plans.plan_gain import PlanGain
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, share_words, time_words
from solver_lambda.planning.decision import OUTWEIGHING_RATIO
from solver_lambda.planning.planner import make_plan
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.size_ranges import is_little_known
from solver_lambda.planning.step_limits import STEP_COST_RATIO
from tests.examples import examples
from tests.solver_lambda.odd_observations import UNIT_BYTES, odd_observations

PLAN_CODES = {
    "apply": {
        "gain",
        "step",
        "way",
        "over_budget",
        "no_limit",
        "bounds",
        "back",
        "latency_bound",
        "miss_bound",
    },
    "keep": {
        "learning",
        "optimal",
        "best_found",
        "small_gain",
        "step_limit",
        "no_demand",
        "infeasible",
        "back",
    },
}
TIME = r"(\S+|less than \S+) ms"
FROM_TO = re.compile(rf"mean access time from {TIME} to {TIME}")
GAIN = re.compile(r"(-?[\d.]+)% less after the cost of moving")
WAY = re.compile(r"would gain ([\d.]+)%")
# Words have three digits, and a per cent has one behind the point, or two where it is little.
DIGITS = 1e-2
TENTH, HUNDREDTH = 0.051, 0.011


def same(words: str, seconds: float) -> bool:
    if words.startswith("less than "):
        return 0 < seconds < float(words.removeprefix("less than ")) / 1e3
    return float(words) / 1e3 == pytest.approx(seconds, rel=DIGITS)


def check_numbers(observation: Observation, plan: AdaptationPlan) -> None:
    share = shares(observation.servers)
    before = sum(share[server.name] * server.eat_before_seconds for server in plan.servers)
    after = sum(share[server.name] * server.eat_seconds for server in plan.servers)
    assert plan.mean_access_time_before_seconds == pytest.approx(before, rel=1e-12)
    assert plan.mean_access_time_seconds == pytest.approx(after, rel=1e-12)
    if plan.decision == "apply":
        total = sum(server.maxmemory_bytes for server in plan.servers)
        assert total <= observation.budget_bytes
    else:
        assert plan.predicted_gain_ratio == 0
        assert all(s.maxmemory_bytes == s.maxmemory_before_bytes for s in plan.servers)
        assert all(s.eat_seconds == s.eat_before_seconds for s in plan.servers)


def makes_nearly_all(observation: Observation, plan: AdaptationPlan) -> bool:
    """Whether one server makes so much of the mean access time that the others' gain is held
    against theirs."""
    parts = [
        before.weight * before.request_rate_per_second * after.eat_before_seconds
        for before, after in zip(observation.servers, plan.servers, strict=True)
    ]
    return max(parts) > (OUTWEIGHING_RATIO - 1e-9) * sum(parts)


def check_plan_words(observation: Observation, plan: AdaptationPlan) -> None:
    code, _, words = plan.reason.partition(": ")
    assert code in PLAN_CODES[plan.decision]
    least = observation.planning.minimum_gain_ratio * 100
    claims = FROM_TO.search(words), GAIN.search(words)
    if code in ("gain", "step"):
        mean, gain = claims
        assert same(mean[1], plan.mean_access_time_before_seconds)
        told = PlanGain.of(plan, observation)
        assert same(mean[2], told.after_seconds)
        assert float(gain[1]) == pytest.approx(100 * told.ratio, abs=TENTH)
        assert 0 <= float(gain[1]) <= 100 * plan.predicted_gain_ratio + TENTH
        assert plan.predicted_gain_ratio > 0
        over = float(gain[1]) - least
        is_one = makes_nearly_all(observation, plan)
        enough = over >= -HUNDREDTH if code == "gain" else over <= HUNDREDTH or least == 0
        assert enough or is_one
    else:
        assert claims == (None, None)
    if code in ("small_gain", "step_limit"):
        is_small = float(WAY.search(words)[1]) <= least
        is_one = makes_nearly_all(observation, plan)
        assert is_small == (code == "small_gain") or least == 0 or is_one
    if code == "way":
        assert float(WAY.search(words)[1]) >= least - HUNDREDTH
        part = plan.mean_access_time_seconds / plan.mean_access_time_before_seconds - 1
        assert part <= STEP_COST_RATIO * float(WAY.search(words)[1]) / 100 + 1e-3
    if code in ("step", "way", "step_limit"):
        assert re.search("limits a cycle's step|hardly any reads|few reads", words)
    if code in ("learning", "optimal"):
        is_learning = any(
            s.weight and s.request_rate_per_second and is_little_known(s, observation)
            for s in observation.servers
        )
        assert is_learning == (code == "learning")
        assert plan.optimality_gap <= observation.planning.epsilon_ratio
    if code == "best_found":
        assert plan.optimality_gap > observation.planning.epsilon_ratio
        assert f"up to {max(plan.optimality_gap, 1e-4):.2%} better" in words
    if code == "infeasible":
        assert (plan.optimality_gap, plan.method) == (1.0, "none")
    if code == "no_demand":
        assert not any(s.weight and s.request_rate_per_second for s in observation.servers)
    if code == "over_budget":
        total = sum(server.maxmemory_before_bytes for server in plan.servers)
        assert words == f"the sizes in force sum to {format_size(total)}"
        assert total > observation.budget_bytes
    if code in ("latency_bound", "miss_bound"):
        (server,) = (s for s in plan.servers if words.startswith(f"{s.name} "))
        assert server.hit_ratio > server.hit_ratio_before


def check_server_words(before: ServerObservation, after: ServerPlan, plan: AdaptationPlan) -> None:
    code = after.reason.partition(":")[0]
    change = after.maxmemory_bytes - after.maxmemory_before_bytes
    had_no_limit = not after.maxmemory_before_bytes
    if change == 0:
        assert code == "stays"
    else:
        assert code == ("shrinks" if change < 0 or had_no_limit else "grows")
    if after.reason.startswith("stays: this plan gains nothing"):
        size = after.maxmemory_bytes
        assert size + UNIT_BYTES <= (before.maximum_bytes or size + UNIT_BYTES)
        assert size - UNIT_BYTES >= before.minimum_bytes or " cannot be had" in after.reason
    words = FROM_TO.search(after.reason)
    if words:
        assert after.eat_seconds < after.eat_before_seconds
        assert same(words[1], after.eat_before_seconds)
        assert same(words[2], after.eat_seconds)
    is_below = 0 < after.maxmemory_before_bytes < before.minimum_bytes
    if change > 0 and before.keep_reason is None and " cannot be had" not in after.reason:
        assert (" as it is to have " in after.reason) == (
            is_below and not plan.reason.startswith("back")
        )
    if before.maximum_bytes is not None and before.keep_reason is None and not had_no_limit:
        is_there = (
            not plan.reason.startswith("back")
            and 0 <= before.maximum_bytes - after.maxmemory_bytes < UNIT_BYTES
        )
        assert not is_there or "its maximum" in after.reason
        assert is_there or "allows no more" not in after.reason
    if "no gain" in after.reason or "do not change" in after.reason:
        assert after.eat_seconds == after.eat_before_seconds
    if "cost it" in after.reason:
        assert after.eat_seconds > after.eat_before_seconds
    if "others more than save" in after.reason:
        assert plan.mean_access_time_seconds < plan.mean_access_time_before_seconds
    rate, miss_ratio = before.request_rate_per_second, 1 - after.hit_ratio
    units = {
        "latency_bound_seconds": ("ms", 1e3, after.eat_seconds),
        "miss_bound_per_second": ("misses a second", 1.0, rate * miss_ratio),
    }
    assert after.reason.count("its bound of") == len(before.bounds)
    for name, most in before.bounds.items():
        unit, scale, amount = units[name]
        (told,) = re.findall(
            rf"its bound of [^;]+? {unit} (is met|.*? is what it gets)", after.reason
        )
        if amount != pytest.approx(most, rel=1e-9):
            assert (told == "is met") == (amount < most)
        if told != "is met":
            (gets,) = re.findall(rf"((?:less than )?\S+) {unit} is what it gets", told)
            assert (
                same(gets, amount)
                if unit == "ms"
                else float(gets) == pytest.approx(scale * amount, rel=DIGITS)
            )


@settings(max_examples=examples(300))
@given(observation=odd_observations())
def test_what_a_plan_says_agrees_with_its_numbers(observation):
    plan = make_plan(observation, now_seconds=1e6)
    check_numbers(observation, plan)
    check_plan_words(observation, plan)
    for before, after in zip(observation.servers, plan.servers, strict=True):
        check_server_words(before, after, plan)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(observation=odd_observations())
def test_the_log_claims_the_gain_of_the_plan_and_none_where_sizes_stay(caplog, observation):
    plan = make_plan(observation, now_seconds=1e6)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        log_decision(plan, None, PlanGain.of(plan, observation), "plans/n/1.json from the cloud")
    claim = re.search(r"([\d.]+)% (more|less) after the cost of moving", caplog.text)
    if plan.decision == "keep" or plan.reason.startswith("back:"):
        assert claim is None
    else:
        sign = 1 if claim[2] == "less" else -1
        told = PlanGain.of(plan, observation).ratio
        assert sign * float(claim[1]) == pytest.approx(100 * told, abs=TENTH)
        assert caplog.text.count("after the cost of moving") == 1


@settings(max_examples=examples(100))
@given(observation=odd_observations())
def test_a_plan_is_read_as_it_was_written(observation):
    plan = make_plan(observation, now_seconds=1e6)
    assert AdaptationPlan.loads(plan.dumps(), "plan") == plan


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 ms"),
        (9.475e-8, "less than 0.001 ms"),
        (1e-6, "0.001 ms"),
        (0.0123456, "12.3 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1000 ms"),
        (9.9999, "10000 ms"),
        (123.4567, "123457 ms"),
    ],
)
def test_a_time_has_no_powers_of_ten(seconds: float, words: str) -> None:
    assert time_words(seconds) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.0, "0.0"),
        (0.00044, "0.04"),
        (0.1576, "15.8"),
        (-0.0044, "-0.44"),
        (0.9995, "99.95"),
        (1.0, "100.0"),
        (1.576, "157.6"),
    ],
)
def test_a_share_has_a_hundredth_where_little_is_left(ratio: float, words: str) -> None:
    assert share_words(ratio) == words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("gain: mean access time from 2 ms to 1 ms", "mean access time from 2 ms to 1 ms"),
        (
            "stays: no_eviction: noeviction; a smaller maxmemory would make writes fail",
            "it does not evict: noeviction; a smaller maxmemory would make writes fail",
        ),
        ("no_eviction: it does not evict", "it does not evict"),
        (
            "stays: no_model: for maxmemory-policy x",
            "no curve can be measured for maxmemory-policy x",
        ),
        ("its maximum: 3 MiB", "its maximum: 3 MiB"),
    ],
)
def test_people_see_no_codes(reason: str, words: str) -> None:
    assert reason_words(reason) == words
