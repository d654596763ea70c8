"""How much memory a node needs, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.config.prices import Prices
from sidecar.plans.node_memory import least_as_fast_bytes, memory_words
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan, WhatIf

GIB = 1 << 30


def plan_of(
    budgets: dict[float, float], *, before: float | None = 0.010, found: float | None = None
) -> AdaptationPlan:
    """``budgets``: mean access times by GiB, of which 8 are there; misses are as many, in ms."""
    server = ServerPlan(
        *("pages", 8 * GIB, 8 * GIB, 0.5, 0.5, before, before, 0.0, "stays: so"),
        weight=1.0,
        request_rate_per_second=100.0,
        installed_bytes=8 * GIB if found else None,
        eat_installed_seconds=found,
    )
    what_if = tuple(
        WhatIf(round(gib * GIB), seconds, 0.5, 1e3 * seconds, 0.0, 0.02, 12.0)
        for gib, seconds in sorted(budgets.items())
    )
    return AdaptationPlan(
        *("n", 7, 1.0, 1.0, 8 * GIB, "certified", "keep", "optimal: so", 0.0),
        mean_access_time_before_seconds=before,
        mean_access_time_seconds=0.010,
        servers=(server,),
        what_if=what_if,
    )


FALLING = {2: 0.03, 4: 0.02, 5.9: 0.010, 8: 0.008, 9: 0.0072, 12: 0.0061, 16: 0.006, 32: 0.006}


AS_FAR = "as far as reads have reached"


@pytest.mark.parametrize(
    ("budgets", "how", "words"),
    [
        (
            FALLING,
            {},
            "as fast as now with 5.9 GiB of 8 GiB; as few misses as with equal sizes with 5.9 GiB; "
            "1 GiB more shorten the mean access time by 10.0%, 8 GiB more by 25.0%, and beyond "
            "that hardly anything, " + AS_FAR,
        ),
        (
            FALLING,
            {"before": 0.008, "found": 0.02},
            "as fast as before SPREDS with 4 GiB of 8 GiB; as few misses as with equal sizes with "
            "5.9 GiB; 1 GiB more shorten the mean access time by 10.0%, 8 GiB more by 25.0%, and "
            "beyond that hardly anything, " + AS_FAR,
        ),
        (
            {2: 0.009, 8: 0.008, 32: 0.008},
            {},
            "as fast as now with 2 GiB of 8 GiB or less; as few misses as with equal sizes with "
            "2 GiB or less; more brings hardly anything, " + AS_FAR,
        ),
        (
            {4: 0.05, 8: 0.0125, 16: 0.0124, 32: 0.01},
            {"before": 0.0125},
            "8 GiB are needed to be as fast as now; 24 GiB more shorten the mean access time by "
            "20.0%",
        ),
        ({4: 0.05, 8: 0.0125}, {"before": 0.0125}, "8 GiB are needed to be as fast as now"),
        # A cliff far away is told, whatever the first step brings.
        (
            {4: 0.05, 8: 0.0125, 9: 0.0122, 24: 0.001, 32: 0.001},
            {"before": 0.0125},
            "8 GiB are needed to be as fast as now; 1 GiB more shorten the mean access time by "
            "2.4%, 16 GiB more by 92.0%, and beyond that hardly anything, " + AS_FAR,
        ),
        # Sizes in force that exceed the budget.
        (
            {4: 0.05, 8: 0.0125, 16: 0.004, 32: 0.004},
            {"before": 0.005},
            "16 GiB would be needed to be as fast as now; 8 GiB more shorten the mean access time "
            "by 68.0%, and beyond that hardly anything, " + AS_FAR,
        ),
    ],
)
def test_what_less_and_more_memory_would_do(
    budgets: dict[float, float], how: dict[str, float], words: str
) -> None:
    assert memory_words(plan_of(budgets, **how)) == words


def test_where_minima_leave_no_smaller_budget_none_is_said_to_be_needed() -> None:
    words = memory_words(plan_of({8: 0.0125, 16: 0.0125}, before=0.0125))
    assert words == f"more brings hardly anything, {AS_FAR}"
    assert memory_words(plan_of({8: 0.0125}, before=0.0125)) is None


def test_once_a_plan_is_carried_out_now_is_before_it() -> None:
    words = memory_words(plan_of(FALLING), is_in_force=True)
    assert words is not None
    assert words.startswith("as fast as before this plan with 5.9 GiB of 8 GiB; ")


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        # 5.9 GiB and 10 misses a second: 59 + 52.6 a month; 8 GiB and 8: 80 + 42.08.
        (
            Prices(10.0, 0.002),
            "cheapest is 5.9 GiB, 112 USD a month, where this budget's best division takes 122 USD",
        ),
        (Prices(0.5, 0.002, "EUR"), "cheapest is 12 GiB, 38.1 EUR a month, where this budget's"),
        (Prices(0.0, 0.002), "cheapest is 16 GiB, 31.6 USD a month"),
        (Prices(2.5, 0.001), "at 41.0 USD a month no budget that was tried is much cheaper"),
    ],
)
def test_prices_name_the_cheapest_budget(prices: Prices, words: str) -> None:
    found = memory_words(plan_of(FALLING), prices)
    assert found is not None
    assert words in found
    without = memory_words(plan_of(FALLING), Prices())
    assert without == memory_words(plan_of(FALLING))
    assert found.startswith(f"{without}; ")


def test_who_tells_no_misses_or_no_mean_says_nothing() -> None:
    plan = plan_of(FALLING)
    older = tuple(WhatIf(one.budget_bytes, one.mean_access_time_seconds) for one in plan.what_if)
    assert memory_words(replace(plan, what_if=older)) is None
    assert memory_words(replace(plan, what_if=())) is None
    assert memory_words(plan_of({8: 0.0, 16: 0.0})) is None
    assert least_as_fast_bytes(plan) == round(5.9 * GIB)
    assert least_as_fast_bytes(plan_of(FALLING, before=None)) is None
