"""Tells how much memory a node needs at all: what its plan says of other budgets, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sidecar.config.prices import Prices
from solver_lambda.documents.plan import AdaptationPlan, WhatIf
from solver_lambda.documents.words import share_words, size_words

# A spare part of the budget that is smaller is not worth a word.
LEAST_SPARED = 0.05
# A mean access time is another one if it differs by so much.
_ANOTHER = 0.005
# More memory that brings less than this is said to bring nothing.
_NOTHING = 0.01
# This part of the budget is a little more than the least that anybody asked for.
_LEAST_ASKED = 0.26
_AS_FAR = "as far as reads have reached"


def least_as_fast_bytes(plan: AdaptationPlan, error_ratio: float = 0.0) -> int | None:
    """Return the least budget with which the mean access time is at most that of the sizes in
    force, even if it is ``error_ratio`` of that longer; ``None`` where the plan does not tell."""
    before = plan.mean_access_time_before_seconds
    if before is None:
        return None
    most = (1 - error_ratio) * before
    return _least(plan.what_if, lambda one: one.mean_access_time_seconds <= most)


def memory_words(
    plan: AdaptationPlan, prices: Prices | None = None, *, is_in_force: bool = False
) -> str | None:
    """Say what less and more memory would do, in a line, and which budget is the cheapest where
    there are prices; ``None`` where the plan does not tell. ``is_in_force``: the plan's sizes are,
    so that those it counts from are not those of now."""
    here = plan.own_budget
    if here is None or here.misses_per_second is None or not here.mean_access_time_seconds:
        return None
    now = "before this plan" if is_in_force else "now"
    parts = [*_with_less(plan, here, now), *_with_more(plan.what_if, here)]
    if not parts:
        return None
    if prices:
        parts.append(_cheapest(plan.what_if, here, prices))
    return "; ".join(parts)


def _cheapest(what_if: Sequence[WhatIf], here: WhatIf, prices: Prices) -> str:
    def month(one: WhatIf) -> float:
        return prices.month(one.budget_bytes, one.misses_per_second or 0.0)

    least = min(what_if, key=month)
    if month(least) >= month(here) * (1 - _NOTHING):
        return f"at {prices.words(month(here))} a month no budget that was tried is much cheaper"
    return (
        f"cheapest is {size_words(least.budget_bytes)}, {prices.words(month(least))} a month, "
        f"where this budget's best division takes {prices.words(month(here))}"
    )


def _with_less(plan: AdaptationPlan, here: WhatIf, now: str) -> list[str]:
    before, found = plan.mean_access_time_before_seconds or 0.0, _as_found_seconds(plan)
    equal_misses = here.equal_sizes_misses_per_second or 0.0
    enough = [(f"as fast as {now}", least_as_fast_bytes(plan))]
    if found is not None and abs(found - before) > _ANOTHER * before:
        as_found = _least(plan.what_if, lambda one: one.mean_access_time_seconds <= found)
        enough.append(("as fast as before SPREDS", as_found))
    as_few = _least(plan.what_if, lambda one: (one.misses_per_second or 0.0) <= equal_misses)
    enough.append(("as few misses as with equal sizes", as_few))
    told = [
        (words, size_bytes)
        for words, size_bytes in enough
        if size_bytes is not None and size_bytes <= (1 - LEAST_SPARED) * plan.budget_bytes
    ]
    smallest = plan.what_if[0].budget_bytes
    if not told and smallest > (1 - LEAST_SPARED) * plan.budget_bytes:
        return []  # minima and kept sizes leave no less to look at
    needed = enough[0][1]
    if not told and needed is not None and needed <= plan.budget_bytes:
        return [f"{size_words(plan.budget_bytes)} are needed to be as fast as {now}"]
    if not told and needed is not None:
        return [f"{size_words(needed)} would be needed to be as fast as {now}"]
    of, least = size_words(plan.budget_bytes), _LEAST_ASKED * plan.budget_bytes
    return [
        f"{words} with {size_words(size_bytes)}{f' of {of}' if not place else ''}"
        + (" or less" if size_bytes <= least else "")
        for place, (words, size_bytes) in enumerate(told)
    ]


def _with_more(what_if: Sequence[WhatIf], here: WhatIf) -> list[str]:
    """What reads have not reached yet, no curve knows: there it is flat."""
    larger = [one for one in what_if if one.budget_bytes > here.budget_bytes]
    if not larger:
        return []
    least = here.mean_access_time_seconds * (1 - _NOTHING)
    if larger[-1].mean_access_time_seconds > least:
        return [f"more brings hardly anything, {_AS_FAR}"]
    much = next(one for one in larger if one.mean_access_time_seconds <= least)
    enough = larger[-1].mean_access_time_seconds + _NOTHING * here.mean_access_time_seconds
    last = next(one for one in larger if one.mean_access_time_seconds <= enough)
    words = f"{_more(much, here)} shorten the mean access time by {_shorter(much, here)}"
    if last is not much:
        words += f", {_more(last, here)} by {_shorter(last, here)}"
    if last is larger[-1]:
        return [words]
    return [f"{words}, and beyond that hardly anything, {_AS_FAR}"]


def _more(one: WhatIf, here: WhatIf) -> str:
    return f"{size_words(one.budget_bytes - here.budget_bytes)} more"


def _shorter(one: WhatIf, here: WhatIf) -> str:
    return f"{share_words(1 - one.mean_access_time_seconds / here.mean_access_time_seconds)}%"


def _least(what_if: Sequence[WhatIf], is_enough: Callable[[WhatIf], bool]) -> int | None:
    return min((one.budget_bytes for one in what_if if is_enough(one)), default=None)


def _as_found_seconds(plan: AdaptationPlan) -> float | None:
    """Return the mean access time with the sizes from before SPREDS, by the plan's curves."""
    parts = [
        ((server.weight or 0.0) * (server.request_rate_per_second or 0.0), seconds)
        for server in plan.servers
        if (seconds := server.eat_installed_seconds) is not None
    ]
    total = sum(demand for demand, _ in parts)
    if len(parts) < len(plan.servers) or not total:
        return None
    return sum(demand * seconds for demand, seconds in parts) / total
