"""Builds the observation: what the servers say, what the samples tell, what people have set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.curves.monitor import Estimate
from sidecar.observing.observed_minima import (
    beside_needs,
    beside_wishes,
    giving_unused,
    needed_bytes,
    needing_much,
    with_floors,
    with_minima_that_fit,
    with_needs_that_fit,
)
from sidecar.observing.server_snapshot import ServerSnapshot
from sidecar.observing.team_wishes import believed_latency, effective, is_immodest
from sidecar.servers.connection.sampling_method import why_not_sampled
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import least_maxmemory_bytes
from sidecar.servers.sizes.needed_shares import half_share_bytes, most_needed_bytes
from sidecar.state.sidecar_state import PendingRequest
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import MAX_REASON, Observation, ServerObservation
from solver_lambda.planning.size_ranges import attainable_minima

# A sampler sends something each second, also where nothing is read.
SILENT_SECONDS = 5.0
# Other budgets that each plan tells of, from a quarter of this one to four times as much.
BUDGET_RATIOS = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0)
# So many of the misses may be written by chance without a word of it.
_FEW_BY_CHANCE = 0.05


def observe(
    config: SidecarConfig,
    cycle: int,
    made_at_seconds: float,
    seen: list[ServerSnapshot],
    reserved_bytes: int,
    excess_bytes: int = 0,
    budget_bytes: int | None = None,
    *,
    is_beside_unread: bool = False,
) -> Observation:
    """Make the observation of the servers that answer.

    ``reserved_bytes`` is what those that do not answer may have: it is not divided. Nor is
    ``excess_bytes``, what servers hold above their limits for good; that is taken from what is
    free, and from nobody who has it. ``budget_bytes`` is M now, by default that of the file.
    ``is_beside_unread``: one does not answer.
    """
    count, configured_bytes = len(config.servers), config.memory.budget_bytes
    budget_bytes = configured_bytes if budget_bytes is None else budget_bytes
    most_bytes = most_needed_bytes(count, budget_bytes, max(budget_bytes, configured_bytes))
    half_bytes = half_share_bytes(count, budget_bytes)
    wanted = {one.config.name: effective(one.config, one.settings).minimum_bytes for one in seen}
    servers = beside_needs(
        tuple(_giving_unused(item, most_bytes, half_bytes, config) for item in seen),
        wanted,
        {one.config.name: needed_bytes(one) for one in seen},
        half_bytes,
        is_beside_unread=is_beside_unread,
    )
    servers = beside_wishes(servers, _immodest(seen), half_bytes)
    budget_bytes -= reserved_bytes
    free_bytes = budget_bytes - sum(server.maxmemory_bytes for server in servers)
    budget_bytes -= min(excess_bytes, max(0, free_bytes))
    servers = with_needs_that_fit(servers, wanted, budget_bytes)
    windows = (item.estimate.window_seconds for item in seen if item.estimate)
    observation = Observation(
        node=config.node,
        cycle=cycle,
        made_at_seconds=made_at_seconds,
        window_seconds=max(windows, default=config.cycle.maximum_age_seconds),
        cycle_seconds=config.cycle.maximum_age_seconds,
        budget_bytes=budget_bytes,
        servers=with_floors(servers, config.servers, budget_bytes),
        unit_bytes=config.memory.unit_bytes,
        planning=config.planning,
        budget_ratios=BUDGET_RATIOS,
    )
    return with_minima_that_fit(observation)


def with_unlimited(observation: Observation, seen: Sequence[ServerSnapshot]) -> Observation:
    """Tell the planner which servers have no limit: each is to get one."""
    unlimited = {item.config.name for item in seen if item.has_no_limit}
    servers = tuple(
        replace(server, maxmemory_bytes=0)
        if server.name in unlimited and server.keep_reason is None
        else server
        for server in observation.servers
    )
    return replace(observation, servers=servers)


def much_needed(
    config: SidecarConfig, seen: list[ServerSnapshot], budget_bytes: int
) -> dict[str, int]:
    """Return what servers hold all the time that they cannot evict, of those that hold much: see
    ``needing_much``."""
    held = {one.config.name: min(needed_bytes(one), one.lasting_bytes) for one in seen}
    wanted = {one.config.name: effective(one.config, one.settings).minimum_bytes for one in seen}
    names = needing_much(wanted, held, half_share_bytes(len(config.servers), budget_bytes))
    return {name: held[name] for name in names}


def _immodest(seen: Sequence[ServerSnapshot]) -> set[str]:
    return {
        one.config.name
        for one in seen
        if one.settings and is_immodest(one.settings.values, one.config, one.measured_seconds)
    }


def _giving_unused(
    seen: ServerSnapshot, most_bytes: int, half_bytes: int, config: SidecarConfig
) -> ServerObservation:
    observed = _observe_server(seen, most_bytes, half_bytes)
    enough_bytes = seen.estimate.enough_bytes if seen.estimate else None
    return giving_unused(observed, enough_bytes, config.planning.maximum_curve_error_ratio)


def _observe_server(seen: ServerSnapshot, most_bytes: int, half_bytes: int) -> ServerObservation:
    config, settings = effective(seen.config, seen.settings), seen.settings
    estimate = seen.estimate
    measured = seen.measured_seconds
    latency, source = config.backend_latency_seconds, "configured"
    if settings and "backend_latency_seconds" in settings.values:
        latency = believed_latency(latency or 0.0, seen.config, measured)
        source = "team"
    elif latency is None:
        latency, source = measured, "measured"
    keep_reason = _keep_reason(seen, latency)
    size_bytes = seen.reading.maxmemory_bytes
    minimum_bytes = _minimum_bytes(config, seen, most_bytes, half_bytes)
    if minimum_bytes <= size_bytes <= (config.maximum_bytes or size_bytes):
        keep_reason = keep_reason or seen.waits
    observed = ServerObservation(
        name=config.name,
        maxmemory_bytes=size_bytes,
        minimum_bytes=minimum_bytes,
        maximum_bytes=config.maximum_bytes,
        weight=config.weight,
        request_rate_per_second=0.0,
        cache_latency_seconds=config.cache_latency_seconds,
        backend_latency_seconds=latency or 0.0,
        backend_latency_source=source,
        bounds=config.bounds,
        curve=_no_curve(size_bytes),
        changed_at_seconds=seen.changed_at_seconds,
        keep_reason=keep_reason and keep_reason[:MAX_REASON],  # some words are a server's
        settings_version=settings.version if settings else None,
        installed_bytes=seen.installed_bytes,
    )
    if estimate is None:
        return observed
    return replace(
        observed,
        request_rate_per_second=estimate.request_rate_per_second,
        curve=estimate.curve,
        curve_error_ratio=estimate.curve_error_ratio,
        miss_ratio=estimate.miss_ratio,
        inserted_per_read=estimate.inserted_per_read,
        measured_backend_latency_seconds=measured,
        fill_ratio=None if seen.reading.is_looked_at else estimate.fill_ratio,
        sampled_objects=estimate.sampled_objects,
        mean_object_bytes=estimate.mean_object_bytes,
    )


def _minimum_bytes(
    config: ServerConfig, seen: ServerSnapshot, most_bytes: int, half_bytes: int
) -> int:
    """Return what is wanted, or up to ``most_bytes``: below what cannot be evicted, every write
    would fail. It grows for what lasts. For clients' buffers, which come and go, it keeps half of
    an equal share; for more others make room at once, and get it back, which a plan would give away
    for a cycle, or keep from them."""
    pinned = 0
    if seen.estimate:  # not clients' buffers: of those the window knows how long they were there
        pinned = seen.reading.baseline_bytes - seen.reading.clients_bytes
        pinned += seen.estimate.pinned_bytes
    planned_bytes = seen.reading.maxmemory_bytes
    least = least_maxmemory_bytes(planned_bytes, max(seen.unevictable_bytes, pinned))
    lasting = least_maxmemory_bytes(planned_bytes, max(seen.lasting_bytes, pinned))
    least = max(lasting, min(least, half_bytes, planned_bytes))
    most_bytes = min(most_bytes, config.maximum_bytes or most_bytes)
    sheltered = min(seen.sheltered_bytes, config.maximum_bytes or seen.sheltered_bytes)
    return max(config.minimum_bytes, min(least, most_bytes), sheltered)


def _keep_reason(seen: ServerSnapshot, latency_seconds: float | None) -> str | None:
    if seen.kept is not None:
        return seen.kept
    if fixed := seen.reading.keep_reason():
        return fixed
    # This holds also for one that is not read: nothing tells what its keys are worth later.
    if why := why_not_sampled(seen.reading):
        return f"no_sampler: {why}"
    if seen.estimate is None:
        return "no_samples: nothing is known of its accesses yet"
    # It counts none of the reads that nobody told of.
    if seen.silent_seconds > SILENT_SECONDS:
        return f"silent: its sampler has told nothing for {round(seen.silent_seconds)}s"
    if seen.estimate.keep_reason:
        return seen.estimate.keep_reason
    if latency_seconds is None:
        return f"no_backend_latency: {_no_latency_words(seen.estimate, seen.reading)}"
    return None


def _no_latency_words(estimate: Estimate, reading: ServerReading) -> str:
    if reading.is_looked_at:
        return "not configured, and a look from outside cannot measure it"
    if estimate.chance_ratio <= _FEW_BY_CHANCE:
        return "neither configured nor measured yet"
    return (
        "not configured, and cannot be measured: its keys are written whether they were missed or "
        f"not, as perhaps after {estimate.chance_ratio:.0%} of its misses"
    )


def _no_curve(size_bytes: int) -> MissRatioCurve:
    return MissRatioCurve(np.array([float(size_bytes)]), np.array([1.0]))


def pending_request(observation: Observation) -> PendingRequest:
    """Return what the answer must respect; of the minima, as much as can be had."""
    kept = {
        one.name: (one.maxmemory_bytes, one.maxmemory_bytes)
        for one in observation.servers
        if one.keep_reason is not None
    }
    return PendingRequest(
        cycle=observation.cycle,
        asked_at_seconds=observation.made_at_seconds,
        budget_bytes=observation.budget_bytes,
        bounds_bytes=wanted_bounds(observation) | kept,
    )


def wanted_bounds(observation: Observation) -> dict[str, tuple[int, int | None]]:
    """Return what people want of each server's size, the least as far as it can be had. It does not
    go by sizes that are kept as planned: a server may still be on the way there."""
    minima = attainable_minima(observation)
    return {one.name: (minima[one.name], one.maximum_bytes) for one in observation.servers}
