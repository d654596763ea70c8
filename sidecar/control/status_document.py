"""Makes the status document: all that commands, the page and the metrics say of a running sidecar.

It is made from what is known: nobody is asked, and nothing is waited for. Sizes are bytes, times
seconds, points in time Unix time; what is not known is ``None``.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.config.prices import Prices
from sidecar.control.gain_by_curves import access_seconds
from sidecar.control.measured_access_time import access_seconds_of
from sidecar.control.problems import problems_of
from sidecar.control.server_status import KnownServers, server_status
from sidecar.controllers.planner_outage import PlannerOutage
from sidecar.observing.observation_cycle import ObservationCycle
from sidecar.plans.node_memory import memory_words
from sidecar.servers.actuator import Actuator
from sidecar.servers.sizes.reserved_memory import not_put_back, takers
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.units import format_size

if TYPE_CHECKING:
    from sidecar.control.control_plane import ControlPlane
from sidecar.observing.observation_cycle import LONGEST_UNREST_SECONDS
from solver_lambda.documents.units import format_duration

# A plan that shrinks a server in portions may take a cycle or two.
MOST_CYCLES = 3


def standstill(cycle: ObservationCycle, actuator: Actuator) -> list[str]:
    """Say what stands still: an observation that is late, and a server that has still to shrink."""
    found = []
    longest_seconds = cycle.config.cycle.maximum_age_seconds
    late_seconds = time.time() - cycle.latest_at_seconds
    if late_seconds > max(longest_seconds, 2 * LONGEST_UNREST_SECONDS):
        found.append(
            f"the observation is {format_duration(late_seconds)} late, more than a whole cycle: no "
            "plan is made meanwhile; the log says what it waits for"
        )
    if actuator.looks_on:
        return found
    sizes = actuator.intermediate_sizes.sizes_bytes
    for state in actuator.latest:
        since = cycle.shrinking_since.get(state.name, math.inf)
        waited_seconds = time.monotonic() - since
        size = sizes.get(state.name, 0)
        # Who does not evict keeps its size, and that is told as such.
        is_late = waited_seconds > MOST_CYCLES * longest_seconds and state.evicts
        if is_late and size < state.maxmemory_bytes:
            found.append(
                f"{state.name} has been on its way to {format_size(size)} for "
                f"{format_duration(waited_seconds)}, and has "
                f"{format_size(int(state.maxmemory_bytes))}: the others wait for that memory; see "
                "its size, policy and log"
            )
    return found


KIND, VERSION = "spreds.status", 1


def status_document(
    config: SidecarConfig,
    state: SidecarState,
    actuator: Actuator,
    cycle: ObservationCycle,
    plane: ControlPlane,
    metrics: Metrics,
    silence: PlannerOutage | None,
    more_problems: Sequence[str],
    silent_seconds: Callable[[str], float],
    *,
    started_at_seconds: float,
    loop_at_seconds: float,
) -> dict[str, Any]:
    """Return JSON's types. ``more_problems``: other parts'; ``silent_seconds``: without samples."""
    known = KnownServers.of(actuator, cycle, plane, state.control)
    servers = [server_status(one, state, actuator, cycle, plane, known) for one in config.servers]
    budget, counted, above = _budget(actuator), _counted_bytes(actuator), _takers(actuator)
    servers = [{**one, "counted_bytes": counted.get(one["name"])} for one in servers]
    found = problems_of(servers, budget, state, plane.mode, silence, counted, silent_seconds, above)
    process_ids = {name: one.process_id for name, one in actuator.readings.items()}
    found += [*_of_servers(actuator), *plane.cgroups.problems(config, process_ids)]
    events, now_seconds = plane.server_events, time.time()
    found += events.buffers.problems(now_seconds)
    late, refusing = standstill(cycle, actuator), [*events.refusals.problems(now_seconds)]
    return {
        "kind": KIND,
        "version": VERSION,
        "node": config.node,
        "spreds_version": spreds_version(),
        "pid": os.getpid(),
        "started_at_seconds": started_at_seconds,
        **_clock(),
        "mode": plane.mode,
        **_who_decides(config, state, actuator),
        "budget": budget,
        "loop_at_seconds": loop_at_seconds,
        "actuator_at_seconds": actuator.at_seconds,
        "samples": _samples(config, cycle, metrics),
        "last_observation": _last_observation(cycle),
        "next_observation_at_seconds": cycle.latest_at_seconds,
        **_plans(plane, silence, metrics, config.prices),
        "last_check": asdict(plane.verification.last) if plane.verification.last else None,
        **_gains(plane, state),
        "controller": _controller(config, silence),
        "problems": [*plane.problems(), *refusing, *found, *more_problems, *late],
        "stands_still": bool(late or refusing) or _waits(actuator),
        "servers": servers,
    }


def _clock() -> dict[str, Any]:
    """A page may be looked at from another zone."""
    return {"now_seconds": time.time(), "utc_offset_seconds": time.localtime().tm_gmtoff}


def _installed_version() -> str:
    try:
        return version("spreds")
    except PackageNotFoundError:
        return "unknown"


# It stands in files, and a sidecar may have no descriptor left for one.
_SPREDS_VERSION = _installed_version()


def spreds_version() -> str:
    """Return the version of the package that was installed when this process started."""
    return _SPREDS_VERSION


def _who_decides(config: SidecarConfig, state: SidecarState, actuator: Actuator) -> dict[str, Any]:
    control = state.control
    ordered = control.mode is not None and control.file_mode == config.mode
    waits = control.wait is not None and time.time() < control.wait.until_seconds
    return {
        "mode_by": asdict(control.mode_by) if ordered and control.mode_by else None,
        "sets_sizes": control.sets_sizes and not actuator.looks_on,
        "pause": asdict(control.pause) if control.pause else None,
        "wait": asdict(control.wait) if control.wait and waits else None,
    }


def _samples(config: SidecarConfig, cycle: ObservationCycle, metrics: Metrics) -> dict[str, Any]:
    return {
        "received": metrics.value("samples"),
        "lost_batches": metrics.value("batches_lost"),
        "since_observation": cycle.samples,
        "wanted": config.cycle.samples,
    }


def _last_observation(cycle: ObservationCycle) -> dict[str, Any] | None:
    observation = cycle.last_observation
    if observation is None:
        return None
    return {
        "cycle": observation.cycle,
        "made_at_seconds": observation.made_at_seconds,
        "window_seconds": observation.window_seconds,
        "was_early": cycle.was_early,
    }


def _counted_bytes(actuator: Actuator) -> dict[str, int]:
    """Return each ``maxmemory``, where there is one; without an answer, as last known or
    planned."""
    limits = {
        state.name: int(min(state.maxmemory_bytes, state.counted_bytes))
        for state in actuator.latest
        if not state.reachable and state.counted_bytes < math.inf
    }
    return limits | {name: reading.maxmemory_bytes for name, reading in actuator.readings.items()}


def _takers(actuator: Actuator) -> dict[str, str]:
    return takers(actuator.latest, actuator.budget.bytes)


def _budget(actuator: Actuator) -> dict[str, Any]:
    budget, readings, seen = actuator.budget, actuator.readings, actuator.last_seen()
    return {
        "bytes": budget.bytes,
        "source": budget.source,
        "configured": budget.configured,
        "maxmemory_bytes": sum(_counted_bytes(actuator).values()),
        "used_bytes": sum(reading.counted_bytes for reading in readings.values()),
        "rss_bytes": sum(reading.rss_bytes for reading in seen.values()),
        "rss_as_last_told": sorted(seen.keys() - readings.keys()),
        "rss_budget_bytes": budget.rss_budget_bytes,
        "rss_budget_is_vain": budget.is_vain,
        "headroom_bytes": budget.headroom(),
    }


def _of_servers(actuator: Actuator) -> list[str]:
    """Say which servers do not have their sizes, and which another sidecar controls."""
    missing: list[str] = []
    if not actuator.looks_on:
        missing += not_put_back(actuator.latest).values()
        missing += _takers(actuator).values()
        missing += (f"{one} refuses another size: {why}" for one, why in actuator.refused().items())
        missing += _refusing_writes(actuator)
    return [*missing, *(f"{name} is left alone: {who}" for name, who in actuator.taken().items())]


def _waits(actuator: Actuator) -> bool:
    """Whether memory waits for a server that does not free it or refuses another size, or writes
    are refused."""
    if actuator.looks_on:
        return False
    has_stuck = any(state.reachable and state.stuck for state in actuator.latest)
    return has_stuck or bool(actuator.refused()) or any(_refusing_writes(actuator))


def _refusing_writes(actuator: Actuator) -> Iterator[str]:
    for name, reading in actuator.readings.items():
        size, least = reading.maxmemory_bytes, actuator.latest_least_bytes.get(name, 0)
        if 0 < size < reading.counted_bytes and reading.maxmemory_policy == "noeviction":
            yield (
                f"{name} refuses writes: it does not evict, uses "
                f"{format_size(reading.counted_bytes)}, and has {format_size(size)}, which is left "
                "as it is: give it what it needs, in its own file, too"
            )
        elif 0 < size < least and not reading.ignores_maxmemory:
            yield (
                f"{name} refuses writes, or soon will: it has {format_size(size)}, and needs "
                f"{format_size(least)} for what it cannot evict; it gets that as soon as others "
                "give it up"
            )


def _last_plan(
    plane: ControlPlane, silence: PlannerOutage | None, prices: Prices
) -> dict[str, Any] | None:
    plan = plane.plans.last_plan
    if plan is None:
        return None
    because = plane.plans.not_carried_out_because
    is_carried_out = plan.decision == "apply" and because is None
    return {
        **plan.to_json(),
        "mean_access_time_with_moving_seconds": plane.plans.last_gain.after_seconds,
        "predicted_gain_ratio": plane.plans.last_gain.ratio,
        "gain_words": plane.plans.last_gain.words,
        "known_words": plane.plans.last_gain.known,
        "memory_words": memory_words(plan, prices, is_in_force=is_carried_out),
        "prices": asdict(prices) if prices else None,
        "taken_at_seconds": plane.plans.taken_at_seconds,
        "in_place_of": silence.place if silence and silence.stood_in(plan) else None,
        "carried_out": is_carried_out,
        "not_carried_out_because": because,
        "overtaken_by": plane.plans.overtaken_by,
    }


def _plans(
    plane: ControlPlane, silence: PlannerOutage | None, metrics: Metrics, prices: Prices
) -> dict[str, Any]:
    at_seconds, words = plane.plans.last_refusal or (None, None)
    count = metrics.value("plans_refused")
    return {
        "last_plan": _last_plan(plane, silence, prices),
        "plans_refused": {"count": count, "last_at_seconds": at_seconds, "last_words": words},
    }


def _gains(plane: ControlPlane, state: SidecarState) -> dict[str, Any]:
    return {
        "measured_access_time_seconds": plane.series.mean_seconds,
        "unmeasured": plane.series.unmeasured,
        "gain": _gain(plane),
        "recommended_gain": _recommended_gain(plane),
        "installed_gain": _installed_gain(plane) if state.control.engaged else None,
    }


def _gain(plane: ControlPlane) -> dict[str, Any]:
    """Return both gains of the last plan that was held against what came."""
    check = plane.verification.last
    return {
        "predicted_ratio": check.predicted_ratio if check else None,
        "realised_ratio": check.realised_ratio if check else None,
    }


def _recommended_gain(plane: ControlPlane) -> dict[str, Any] | None:
    if plane.mode != "recommend":
        return None
    recommended = plane.recommended
    return {"since_seconds": recommended.since_seconds, "ratio": recommended.ratio}


def _installed_gain(plane: ControlPlane) -> dict[str, Any] | None:
    gain = plane.gain
    if gain is None:
        return None
    servers = plane.weighed
    in_force_seconds, installed_seconds = access_seconds(servers, gain.counted)
    return {
        "since_seconds": gain.since_seconds,
        "ratio": 1 - in_force_seconds / installed_seconds if installed_seconds else None,
        "measured_before_seconds": access_seconds_of(gain.before, servers),
    }


def _controller(config: SidecarConfig, silence: PlannerOutage | None) -> dict[str, Any]:
    return {
        "kind": config.controller.kind,
        "silence": asdict(silence) if silence is not None else None,
    }
