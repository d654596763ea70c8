"""The last look at a plan: each rule, at its edge, and which one is told first."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sidecar.plans.plan_check import CLOCK_TOLERANCE_SECONDS, PlanRefusedError, check_plan
from sidecar.state.sidecar_state import PendingRequest, SidecarState
from solver_lambda.documents.plan import AdaptationPlan
from tests.sidecar.plan_messages import GOLDEN

NOW = 1_800_000_000.0
AGE = 3600.0
CYCLE = 7
A, B = (server.name for server in GOLDEN.servers)
BOUNDS: dict[str, tuple[int, int | None]] = {A: (100, 300), B: (200, None)}
BUDGET = 1000


def sized(a_bytes: int, b_bytes: int, **changes: Any) -> AdaptationPlan:
    a, b = GOLDEN.servers
    return replace(
        GOLDEN,
        node="n1",
        cycle=CYCLE,
        made_at_seconds=NOW,
        budget_bytes=BUDGET,
        servers=(replace(a, maxmemory_bytes=a_bytes), replace(b, maxmemory_bytes=b_bytes)),
        **changes,
    )


def check(plan: AdaptationPlan, asked_seconds_ago: float = 0.0, applied_cycle: int = 6) -> None:
    state = SidecarState(applied_cycle=applied_cycle)
    state.asked = {CYCLE: PendingRequest(CYCLE, NOW - asked_seconds_ago, BUDGET, BOUNDS)}
    check_plan(plan, state, "n1", now_seconds=NOW, maximum_age_seconds=AGE)


@pytest.mark.parametrize(
    "plan",
    [
        sized(100, 200),
        sized(300, 700),
        sized(100, 900),
        replace(sized(300, 700), made_at_seconds=NOW + CLOCK_TOLERANCE_SECONDS),
        # One that keeps all sizes may tell of any.
        sized(1, 5000, decision="keep"),
    ],
)
def test_what_just_keeps_the_rules_is_taken(plan: AdaptationPlan) -> None:
    check(plan, asked_seconds_ago=AGE)


# Name: (what is wrong, when it was asked for, the code, the words).
WRONG: dict[str, tuple[Callable[[], AdaptationPlan], float, str, str]] = {
    "another node": (
        lambda: replace(sized(100, 200), node="n2"),
        0,
        "foreign_node",
        "the plan is for 'n2', this is 'n1'",
    ),
    "nobody asked": (
        lambda: replace(sized(100, 200), cycle=8),
        0,
        "unasked_cycle",
        "nobody asked for cycle 8",
    ),
    "too old": (lambda: sized(100, 200), AGE + 1, "expired", "its observation is 3601 s old"),
    "of tomorrow": (
        lambda: replace(sized(100, 200), made_at_seconds=NOW + CLOCK_TOLERANCE_SECONDS + 1),
        0,
        "from_the_future",
        "made at 1800000301",
    ),
    "a server missing": (
        lambda: replace(sized(100, 200), servers=sized(100, 200).servers[:1]),
        0,
        "wrong_servers",
        f"asked and planned differ in {B}",
    ),
    "two other servers": (
        lambda: replace(
            sized(100, 200),
            servers=tuple(replace(one, name=f"x{one.name}") for one in GOLDEN.servers),
        ),
        0,
        "wrong_servers",
        "asked and planned differ in " + ", ".join(sorted((A, B, f"x{A}", f"x{B}"))),
    ),
    "less budget": (
        lambda: replace(sized(100, 200), budget_bytes=BUDGET - 1),
        0,
        "wrong_budget",
        "for 999 bytes, asked for 1000",
    ),
    "more budget": (
        lambda: replace(sized(100, 200), budget_bytes=BUDGET + 1),
        0,
        "wrong_budget",
        "for 1001 bytes, asked for 1000",
    ),
    "below a minimum": (
        lambda: sized(99, 200),
        0,
        "below_minimum",
        f"{A}: 99 bytes, least 100",
    ),
    "below another's": (
        lambda: sized(100, 199),
        0,
        "below_minimum",
        f"{B}: 199 bytes, least 200",
    ),
    "above a maximum": (lambda: sized(301, 200), 0, "above_maximum", f"{A}: 301 bytes, most 300"),
    "above the budget": (lambda: sized(300, 701), 0, "over_budget", "1001 bytes, budget 1000"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_rule_refuses_what_just_breaks_it(name: str) -> None:
    make, ago, code, words = WRONG[name]
    with pytest.raises(PlanRefusedError, match=f"^{re.escape(f'{code}: {words}')}$") as refused:
        check(make(), asked_seconds_ago=ago)
    assert refused.value.code == code


@pytest.mark.parametrize("applied", [CYCLE, CYCLE + 1])
def test_a_cycle_is_taken_once_and_never_after_a_newer_one(applied: int) -> None:
    words = f"^old_cycle: cycle 7 is not newer than {applied}$"
    with pytest.raises(PlanRefusedError, match=words) as refused:
        check(sized(100, 200), applied_cycle=applied)
    assert refused.value.code == "old_cycle"
