"""What a year of SPREDS costs with each controller, and which controller is the cheapest."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from infra.costs.measured import Measured
from infra.costs.price_list import PriceList
from infra.costs.terms import TERMS, Term
from infra.costs.workload import ALWAYS_ON, CONTROLLERS, Workload, latency_seconds, machines

# By the way that is always on, and by whether the free tier counts.
BreakEvens = Mapping[str, Mapping[str, int | None]]


@dataclasses.dataclass(frozen=True)
class ControllerCost:
    """A year with one controller.

    Attributes:
        latency_seconds: from the observation to its plan.
        machines: that are always on; 0 without any.
        currency: of all money in it; what the names here call ``usd`` is in it.
    """

    controller: str
    terms: tuple[Term, ...]
    latency_seconds: float
    machines: int = 0
    currency: str = "USD"

    def nodes_usd(self, free_tier: bool) -> float:
        """Return dollars a year that grow with the nodes: all but the stack's shared terms."""
        return sum(term.usd(free_tier) for term in self.terms if not term.shared)

    def shared_usd(self, free_tier: bool) -> float:
        """Return dollars a year of the stack itself."""
        return sum(term.usd(free_tier) for term in self.terms if term.shared)

    def usd(self, free_tier: bool) -> float:
        """Return dollars a year, all terms."""
        return sum(term.usd(free_tier) for term in self.terms)


def compare(
    workload: Workload,
    measured: Measured,
    prices: PriceList,
    latencies_seconds: Mapping[str, float] | None = None,
    controllers: Iterable[str] = CONTROLLERS,
) -> list[ControllerCost]:
    """The bill of each controller, in the order asked for.

    ``latencies_seconds`` replaces what the model says of a controller.
    """
    known = latencies_seconds or {}
    bills = []
    for controller in controllers:
        latency = known.get(controller, latency_seconds(controller, workload, measured))
        terms = TERMS[controller](workload, measured, prices, latency)
        count = machines(controller, workload, measured)
        bills.append(ControllerCost(controller, tuple(terms), latency, count, prices.currency))
    return bills


def cheapest(
    bills: Sequence[ControllerCost], time_limit_seconds: float, free_tier: bool
) -> ControllerCost | None:
    """The cheapest that meets the time limit, or ``None``; the faster of two that cost the same."""
    meeting = [bill for bill in bills if bill.latency_seconds <= time_limit_seconds]
    return min(meeting, key=lambda b: (b.usd(free_tier), b.latency_seconds), default=None)


def first_crossing(difference: Callable[[int], float], limit: int) -> int | None:
    """The smallest whole n in [1, limit] with ``difference(n)`` >= 0; ``None`` if there is none.

    Steps up by doubling, then halves the last step: within one step the sign may change once.
    """
    low, high = 0, 1
    while difference(high) < 0:
        if high >= limit:
            return None
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if difference(middle) >= 0 else (middle, high)
    return high


def break_evens(
    workload: Workload, measured: Measured, prices: PriceList, by: str, limit: int
) -> BreakEvens:
    """Find where a function costs as much as each way that is always on, without and with the free
    tier; ``by`` is as in :func:`break_even`."""
    return {
        against: {
            f"{'with' if free_tier else 'without'} the free tier": break_even(
                workload, measured, prices, against=against, by=by, free_tier=free_tier, limit=limit
            )
            for free_tier in (False, True)
        }
        for against in ALWAYS_ON
    }


def _with(workload: Workload, by: str, count: int) -> Workload:
    changed: dict[str, Any] = {by: count}
    return dataclasses.replace(workload, **changed)


def break_even(
    workload: Workload,
    measured: Measured,
    prices: PriceList,
    *,
    controller: str = "lambda",
    against: str = "instance",
    by: str = "cycles_per_day",
    free_tier: bool = False,
    limit: int = 1_000_000,
) -> int | None:
    """Cycles a day of each node, or ``nodes``, at which ``controller`` first costs as much as
    ``against``: what ``by`` names of a workload.

    ``None``: not up to ``limit``.
    """

    def difference(count: int) -> float:
        at = _with(workload, by, count)
        one, other = compare(at, measured, prices, controllers=(controller, against))
        return one.usd(free_tier) - other.usd(free_tier)

    low = 1
    while low <= limit:
        # One machine more is a step down, after which the lines may cross again.
        high = _last_with_as_many_machines(against, workload, measured, by, low, limit)
        found = first_crossing(lambda n, low=low: difference(low + n - 1), high - low + 1)  # type: ignore[misc]
        if found is not None:
            return low + found - 1
        low = high + 1
    return None


def _last_with_as_many_machines(
    controller: str, workload: Workload, measured: Measured, by: str, low: int, limit: int
) -> int:
    """Return the highest count up to ``limit`` that needs no more machines than ``low``."""

    def needed(count: int) -> int:
        at = _with(workload, by, count)
        return machines(controller, at, measured)

    count = needed(low)
    return bisect.bisect_right(range(low, limit + 1), count, key=needed) + low - 1
