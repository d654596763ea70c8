"""Says what a plan tells people: its reasons, and what one more MiB of a server would bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from solver_lambda.documents.observation import ServerObservation
from solver_lambda.documents.plan import ServerPlan
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import BACKEND_NOTE, backend_latency_words, time_words
from solver_lambda.planning.bounds import Bound, bounds_of
from solver_lambda.planning.effective_access_time import EffectiveAccessTime

MEBIBYTE = 1 << 20


class PlanContext(NamedTuple):
    """Says what the whole plan means for each server.

    Attributes:
        decision: the plan's reason.
        keeps: the plan keeps all sizes.
        mean_falls: the weighted mean access time becomes less.
        held: why a size is not free, by name.
        unmet_bounds: why a bound takes no memory, by server and the bound's code.
        limit: what shortens this cycle's step, or ``None``.
        minima_bytes: that can be had, by name.
        unit_bytes: of the observation.
        tells_demand: the sidecar reads plans that carry demand, see ``ServerObservation``.
    """

    decision: str
    keeps: bool
    mean_falls: bool
    held: Mapping[str, str]
    unmet_bounds: Mapping[tuple[str, str], str]
    limit: str | None
    minima_bytes: Mapping[str, int]
    unit_bytes: int
    tells_demand: bool = False


def explain_server(
    server: ServerObservation, size_bytes: int, share: float, circumstances: PlanContext
) -> ServerPlan:
    """Return the part of the plan for one server; ``share`` is its part in the node's mean access
    time."""
    figures = server_figures(server, size_bytes, share)
    before, after = figures["eat_before_seconds"], figures["eat_seconds"]
    after_bytes = size_bytes or size_in_force(server)
    reason = _reason(server, size_bytes, before, after, circumstances)
    return ServerPlan(
        name=server.name,
        maxmemory_before_bytes=server.maxmemory_bytes,
        maxmemory_bytes=size_bytes,
        **figures,
        reason=reason
        + _maximum_note(server, size_bytes, reason, circumstances)
        + "".join(_bound_note(bound, after_bytes, circumstances) for bound in bounds_of(server))
        + _minimum_note(server, circumstances)
        + _backend_note(server),
        settings_version=server.settings_version,
        **(demand_of(server) if circumstances.tells_demand else {}),
    )


def server_figures(server: ServerObservation, size_bytes: int, share: float) -> dict[str, Any]:
    """Return what a size means for a server by its curve, by the names that a plan has for it."""
    eat = EffectiveAccessTime.of(server)
    before_bytes = size_in_force(server)
    after_bytes = size_bytes or before_bytes
    sizes = [before_bytes, after_bytes, after_bytes + MEBIBYTE]
    before, after, one_more = (float(seconds) for seconds in eat.seconds(sizes))
    ratios = 1.0 - server.curve.miss_ratio(sizes[:2])
    return {
        "hit_ratio_before": float(ratios[0]),
        "hit_ratio": float(ratios[1]),
        "eat_before_seconds": before,
        "eat_seconds": after,
        "marginal_gain_seconds_per_mebibyte": share * (after - one_more),
    }


def demand_of(server: ServerObservation) -> dict[str, Any]:
    """Return what a plan tells of a server for those who look at many plans, by the names that it
    has for it."""
    eat, installed = EffectiveAccessTime.of(server), server.installed_bytes
    return {
        "weight": server.weight,
        "request_rate_per_second": server.request_rate_per_second,
        "installed_bytes": installed,
        # Without a limit it may have had any size.
        "eat_installed_seconds": float(eat.seconds([installed])[0]) if installed else None,
    }


def size_in_force(server: ServerObservation) -> float:
    """Return ``maxmemory`` in bytes, where Redis' 0 means no limit."""
    return server.maxmemory_bytes or np.inf


def _reason(
    server: ServerObservation,
    size_bytes: int,
    before: float,
    after: float,
    circumstances: PlanContext,
) -> str:
    if size_bytes == server.maxmemory_bytes:
        why = circumstances.held.get(server.name)
        if why is None and circumstances.keeps:
            why = circumstances.decision
        why = why or _at_bound(server, circumstances)
        return f"stays: {why or 'this plan gains nothing by another size of it'}"
    if not server.maxmemory_bytes:
        return f"shrinks: it had no limit, and gets {format_size(size_bytes)}"
    change = size_bytes - server.maxmemory_bytes
    if change > 0:
        text, idle = f"grows: {format_size(change)} more", "in reserve; its curve promises no gain"
        minimum = circumstances.minima_bytes[server.name]
        if server.maxmemory_bytes < minimum and _code(circumstances) != "back":
            text += f", as it is to have {format_size(minimum)} at least,"
            idle = "do not change its mean access time"
        elif _code(circumstances) == "way":
            idle = "on the way to a size at which it gains"
    else:
        text, idle = f"shrinks: {format_size(-change)} less", "do not change its mean access time"
    return f"{text} {_effect(before, after, circumstances) or idle}"


def _at_bound(server: ServerObservation, circumstances: PlanContext) -> str | None:
    """Say which bound is less than a unit away from the size in force."""
    minimum = circumstances.minima_bytes[server.name]
    for kind, bound, distance in (
        ("maximum", server.maximum_bytes, (server.maximum_bytes or 0) - server.maxmemory_bytes),
        ("least size", minimum, server.maxmemory_bytes - minimum),
    ):
        if bound is not None and distance < circumstances.unit_bytes:
            return f"it is planned {'within a unit of' if distance else 'at'} its {kind}"
    return None


def _effect(before: float, after: float, circumstances: PlanContext) -> str | None:
    """Say what another size does to one server; ``None``: nothing."""
    words = f"{time_words(before)} to {time_words(after)}"
    if after > before:
        saved = "others more than save"
        code = _code(circumstances)
        why = saved if circumstances.mean_falls else f"{_ASKS.get(code, code)} for"
        if _code(circumstances) == "back":
            why = "it had before there were plans"
        return f"cost it {time_words(after - before)} ({words}), which {why}"
    if time_words(after) != time_words(before):
        return f"bring its mean access time from {words}"
    return f"hardly change its mean access time of {time_words(before)}" if after < before else None


# Demands that may cost the mean, by a decision's code.
_ASKS = {
    "over_budget": "the budget asks",
    "bounds": "servers' bounds ask",
    "no_limit": "servers without a limit ask",
}


def _code(circumstances: PlanContext) -> str:
    return circumstances.decision.partition(":")[0]


def _bound_note(bound: Bound, size_bytes: float, circumstances: PlanContext) -> str:
    amount = bound.amount(size_bytes)
    if amount <= bound.most:
        return f"; its bound of {bound.words(bound.most)} is met"
    why = circumstances.unmet_bounds.get((bound.server, bound.code))
    if why is None:
        why = circumstances.limit if circumstances.limit and not circumstances.keeps else None
        why = f"is not met yet: {why}" if why else "is not met now"
    return f"; its bound of {bound.words(bound.most)} {why}, {bound.words(amount)} is what it gets"


def _maximum_note(
    server: ServerObservation, size_bytes: int, reason: str, circumstances: PlanContext
) -> str:
    most = server.maximum_bytes
    if server.keep_reason is not None or most is None or "its maximum" in reason:
        return ""
    if circumstances.decision.startswith("back"):  # what it had is its bound, and no operator's
        return ""
    is_there = 0 <= most - size_bytes < circumstances.unit_bytes
    return f"; its maximum of {format_size(most)} allows no more" if is_there else ""


def _minimum_note(server: ServerObservation, circumstances: PlanContext) -> str:
    had = circumstances.minima_bytes[server.name]
    if server.keep_reason is not None or had >= server.minimum_bytes:
        return ""
    return (
        f"; its minimum of {format_size(server.minimum_bytes)} cannot be had beside the sizes that "
        f"are kept and the other minima, {format_size(had)} is what is left of it"
    )


def _backend_note(server: ServerObservation) -> str:
    if server.measured_backend_latency_seconds is None and server.fill_ratio is None:
        return ""
    words = backend_latency_words(
        server.backend_latency_seconds,
        server.backend_latency_source,
        server.measured_backend_latency_seconds,
        server.fill_ratio,
    )
    return f"{BACKEND_NOTE}{'a time ' if words.startswith('not ') else ''}{words}"
