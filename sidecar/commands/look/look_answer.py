"""Holds what a look found, and makes its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.commands.look.look_progress import NOTHING_KNOWN
from sidecar.look.look_plan import LookPlan
from sidecar.look.looking import Refused
from sidecar.look.server_look import Seen
from sidecar.plans.node_memory import least_as_fast_bytes
from solver_lambda.documents.plan import ServerPlan
from solver_lambda.documents.words import size_words
from solver_lambda.planning.effective_access_time import AccessCost

COLUMNS = (
    *("server", "size now", "then", "hits now", "then", "misses/s", "then", "may be off by"),
    "keys",
)


# Over a shorter time, no read is no sign that there are none.
_COUNTED_SECONDS = 10.0


@dataclass(frozen=True)
class Answer:
    """Holds what was found in a look of ``seconds``, of ``asked_seconds``.

    Attributes:
        guessed_latency: nobody said what misses cost.
        init: the file that was written.
        found_servers: nobody named the servers.
    """

    seen: Sequence[Seen]
    refused: Sequence[Refused]
    found: LookPlan
    seconds: float
    asked_seconds: float
    guessed_latency: bool
    init: str | None
    found_servers: bool = False

    @property
    def may_be_chance(self) -> bool:
        """Whether the move may gain nothing."""
        plan = self.found.plan
        before, after = plan.mean_access_time_before_seconds, plan.mean_access_time_seconds
        if not before:
            return False
        return gain_error_ratio(self) >= 1 - (after or 0.0) / before


def misses_now(seen: Seen) -> float:
    """Return the misses in a second."""
    return seen.misses / seen.seconds


def misses_then(seen: Seen, planned: ServerPlan) -> float:
    """Return the misses in a second with the planned size."""
    if not seen.is_known or planned.hit_ratio is None or _stays(planned):
        return misses_now(seen)
    return (seen.hits + seen.misses) / seen.seconds * (1 - planned.hit_ratio)


def _stays(planned: ServerPlan) -> bool:
    """What it has was measured, and needs no curve."""
    return planned.maxmemory_bytes == planned.maxmemory_before_bytes


def gain_error_ratio(answer: Answer) -> float:
    """Return by how much of the mean access time its change may be off; curves err apart. There
    must be a mean access time."""
    return _error_ratio(answer, of_all=False)


def least_safe_bytes(answer: Answer) -> int | None:
    """Return the least budget that is as fast as the sizes of now, even if curves are off as they
    say; ``None`` if the plan does not tell."""
    plan = answer.found.plan
    if not plan.mean_access_time_before_seconds:
        return None
    return least_as_fast_bytes(plan, _error_ratio(answer, of_all=True))


def _error_ratio(answer: Answer, *, of_all: bool) -> float:
    plan, servers = answer.found.plan, answer.found.observation.servers
    variance = total = 0.0
    for one, planned, server in zip(answer.seen, plan.servers, servers, strict=True):
        demand = server.weight * server.request_rate_per_second
        total += demand
        if one.is_known and (of_all or not _stays(planned)):
            error = one.error_at(planned.maxmemory_bytes)
            variance += (demand * AccessCost.of(server).penalty_seconds * error) ** 2
    before_seconds = plan.mean_access_time_before_seconds
    assert before_seconds
    return math.sqrt(variance) / (total * before_seconds)


def rows(answer: Answer) -> list[tuple[str, ...]]:
    """Return the rows of the table with ``COLUMNS``, one for each server that was looked at."""
    found: list[tuple[str, ...]] = []
    for one, planned in zip(answer.seen, answer.found.plan.servers, strict=True):
        reads = one.hits + one.misses
        nothing = "no reads" if one.seconds >= _COUNTED_SECONDS else "not known"
        hits = f"{100 * one.hits / reads:.1f} %" if reads else nothing
        then, off = ["not known", "-"], "-"
        if one.is_known and one.estimate is not None and planned.hit_ratio is not None:
            by_curve = f"{100 * planned.hit_ratio:.1f} %"
            then = [hits if _stays(planned) else by_curve, f"{misses_then(one, planned):,.0f}"]
            error = one.error_at(planned.maxmemory_bytes)
            off = f"± {100 * error:.1f} points" if error < NOTHING_KNOWN else "not known"
        found.append(
            (
                one.config.name,
                size_words(one.reading.size_bytes)
                + ("" if one.reading.maxmemory_bytes else " used"),
                size_words(planned.maxmemory_bytes or one.reading.size_bytes),
                hits,
                then[0],
                f"{misses_now(one):,.0f}",
                then[1],
                off,
                f"{one.followed:,}",
            )
        )
    return found
