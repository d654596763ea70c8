"""The status document: all that commands, the page and the metrics say of a running sidecar.

It is made from what is known: nobody is asked, and nothing is waited for. Sizes are bytes, times
seconds, points in time Unix time; what is not known is ``None``.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.control.problems import problems_of
from sidecar.control.series import access_seconds
from sidecar.observation_cycle import ObservationCycle
from sidecar.observer import effective
from sidecar.servers.actuator import Actuator
from sidecar.servers.server_reading import ServerReading
from sidecar.servers.transitions import ServerState
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.documents.plan import ServerPlan

if TYPE_CHECKING:
    from sidecar.control.control_room import ControlRoom

KIND, VERSION = "spreds.status", 1
_MOST_CURVE_POINTS = 200
# Codes of servers whose curve says nothing.
_NO_CURVE = ("no_sampler", "no_samples")
_SAMPLERS = {"spreds-": "patch", "spreds.": "module"}


def status_document(
    config: SidecarConfig,
    state: SidecarState,
    actuator: Actuator,
    cycle: ObservationCycle,
    room: ControlRoom,
    metrics: Metrics,
    *,
    started_at_seconds: float,
    loop_at_seconds: float,
) -> dict[str, Any]:
    """JSON's types only."""
    known = _Known.of(actuator, cycle, room)
    servers = [_server(server, state, actuator, cycle, room, known) for server in config.servers]
    budget = _budget(actuator)
    return {
        "kind": KIND,
        "version": VERSION,
        "node": config.node,
        "spreds_version": spreds_version(),
        "pid": os.getpid(),
        "started_at_seconds": started_at_seconds,
        "now_seconds": time.time(),
        "mode": room.mode,
        **_who_decides(config, state, actuator),
        "budget": budget,
        "loop_at_seconds": loop_at_seconds,
        "actuator_at_seconds": actuator.at_seconds,
        "samples": {
            "received": metrics.value("samples"),
            "lost_batches": metrics.value("batches_lost"),
            "since_observation": cycle.samples,
            "wanted": config.cycle.samples,
        },
        "last_observation": _last_observation(cycle),
        "next_observation_at_seconds": cycle.latest_at_seconds,
        "last_plan": _last_plan(room),
        "last_check": asdict(room.verification.last) if room.verification.last else None,
        "gain": _gain(room),
        "recommended_gain": {
            "since_seconds": room.recommended.since_seconds,
            "ratio": room.recommended.ratio,
        }
        if room.mode == "recommend"
        else None,
        "problems": [*room.problems(), *problems_of(servers, budget, state)],
        "servers": servers,
    }


def spreds_version() -> str:
    """Of the installed package."""
    try:
        return version("spreds")
    except PackageNotFoundError:
        return "unknown"


def _who_decides(config: SidecarConfig, state: SidecarState, actuator: Actuator) -> dict[str, Any]:
    control = state.control
    ordered = control.mode is not None and control.file_mode == config.mode
    waits = control.wait is not None and time.time() < control.wait.until_seconds
    return {
        "mode_by": asdict(control.mode_by) if ordered and control.mode_by else None,
        "sets_sizes": not actuator.looks_on,
        "pause": asdict(control.pause) if control.pause else None,
        "wait": asdict(control.wait) if control.wait and waits else None,
    }


def _last_observation(cycle: ObservationCycle) -> dict[str, Any] | None:
    observation = cycle.last_observation
    if observation is None:
        return None
    return {
        "cycle": observation.cycle,
        "made_at_seconds": observation.made_at_seconds,
        "window_seconds": observation.window_seconds,
    }


def _limits_bytes(actuator: Actuator) -> int:
    """Sum of ``maxmemory``, where there is one; of who does not answer, as last known."""
    limits = {
        state.name: int(state.maxmemory_bytes)
        for state in actuator.latest
        if not state.reachable and state.maxmemory_bytes < math.inf
    }
    limits |= {name: reading.maxmemory_bytes for name, reading in actuator.readings.items()}
    return sum(limits.values())


def _budget(actuator: Actuator) -> dict[str, Any]:
    budget, readings = actuator.budget, actuator.readings
    return {
        "bytes": budget.bytes,
        "source": budget.source,
        "configured": budget.configured,
        "maxmemory_bytes": _limits_bytes(actuator),
        "used_bytes": sum(reading.counted_bytes for reading in readings.values()),
        "rss_bytes": sum(reading.rss_bytes for reading in readings.values()),
        "rss_budget_bytes": budget.rss_budget_bytes,
        "headroom_bytes": budget.headroom(),
    }


def _last_plan(room: ControlRoom) -> dict[str, Any] | None:
    plan = room.plans.last_plan
    if plan is None:
        return None
    because = room.plans.not_carried_out_because
    return {
        **plan.to_json(),
        "predicted_gain_ratio": plan.predicted_gain_ratio,
        "taken_at_seconds": room.plans.taken_at_seconds,
        "carried_out": plan.decision == "apply" and because is None,
        "not_carried_out_because": because,
    }


def _gain(room: ControlRoom) -> dict[str, Any]:
    """Both of the last plan that was held against what came."""
    check = room.verification.last
    return {
        "predicted_ratio": check.predicted_ratio if check else None,
        "realised_ratio": check.realised_ratio if check else None,
    }


class _Known(NamedTuple):
    """By server, what is asked of all at once."""

    seen: dict[str, ServerObservation]
    planned: dict[str, ServerPlan]
    predicted_hit_ratios: dict[str, float]
    states: dict[str, ServerState]
    errors: dict[str, str]

    @classmethod
    def of(cls, actuator: Actuator, cycle: ObservationCycle, room: ControlRoom) -> _Known:
        observation, plan = cycle.last_observation, room.plans.last_plan
        return cls(
            {server.name: server for server in observation.servers} if observation else {},
            {server.name: server for server in plan.servers} if plan else {},
            room.predicted_hit_ratios(),
            {state.name: state for state in actuator.latest},
            actuator.errors(),
        )


def _server(
    config: ServerConfig,
    state: SidecarState,
    actuator: Actuator,
    cycle: ObservationCycle,
    room: ControlRoom,
    known: _Known,
) -> dict[str, Any]:
    name = config.name
    reading = actuator.readings.get(name)
    seen, planned = known.seen.get(name), known.planned.get(name)
    settings = cycle.last_settings.get(name)
    wanted = effective(config, settings)
    hit_ratio = room.series.hit_ratios.get(name)
    if hit_ratio is None and seen is not None and seen.miss_ratio is not None:
        hit_ratio = 1 - seen.miss_ratio
    predicted = known.predicted_hit_ratios.get(name)
    return {
        "name": name,
        "up": reading is not None,
        "error": None if reading else known.errors.get(name, "it was not asked yet"),
        **_reading_part(reading),
        "target_bytes": state.targets_bytes.get(name),
        "recommended_bytes": planned.maxmemory_bytes if planned else None,
        "minimum_bytes": wanted.minimum_bytes,
        "maximum_bytes": wanted.maximum_bytes,
        "hit_ratio": hit_ratio,
        "predicted_hit_ratio": predicted,
        "reads_per_second": room.series.reads_per_second.get(
            name, seen.request_rate_per_second if seen else None
        ),
        "access_time_seconds": _access(seen, hit_ratio),
        "predicted_access_time_seconds": _access(seen, predicted),
        **_recommended_part(room, seen, planned),
        **_seen_part(seen),
        "weight": wanted.weight,
        "settings_by": settings.set_by if settings else None,
        "settings_version": settings.version if settings else None,
        "keep_reason": seen.keep_reason if seen else _kept_now(known.states.get(name)),
        "held": _held(state, name),
        "last_change": room.last_changes.get(name),
    }


def _is_known(seen: ServerObservation | None) -> bool:
    """Whether its curve says anything."""
    return seen is not None and not (seen.keep_reason or "").startswith(_NO_CURVE)


def _seen_part(seen: ServerObservation | None) -> dict[str, Any]:
    known = seen if _is_known(seen) else None
    return {
        "backend_latency_seconds": (seen.backend_latency_seconds or None) if seen else None,
        "backend_latency_source": seen.backend_latency_source if seen else None,
        "curve_error_ratio": known.curve_error_ratio if known else None,
        "curve": _curve(known.curve) if known else None,
    }


def _recommended_part(
    room: ControlRoom, seen: ServerObservation | None, planned: ServerPlan | None
) -> dict[str, Any]:
    """What the last plan says of the server's own figures, if it would change sizes."""
    plan = room.plans.last_plan
    known = planned if _is_known(seen) else None
    ratio = known.hit_ratio if known and plan and plan.decision == "apply" else None
    return {
        "recommended_hit_ratio": ratio,
        "recommended_access_time_seconds": _access(seen, ratio),
        "marginal_gain_seconds_per_mebibyte": (
            known.marginal_gain_seconds_per_mebibyte if known else None
        ),
    }


def _reading_part(reading: ServerReading | None) -> dict[str, Any]:
    if reading is None:
        keys = ("run_id", "role", "policy", "sampler", "maxmemory_bytes", "used_bytes")
        return dict.fromkeys((*keys, "rss_bytes", "lifetime_hit_ratio"))
    reads = reading.keyspace_hits + reading.keyspace_misses
    return {
        "run_id": reading.run_id,
        "role": reading.role,
        "policy": reading.maxmemory_policy,
        "sampler": _SAMPLERS.get(reading.sampler_prefix or ""),
        "maxmemory_bytes": reading.maxmemory_bytes,
        "used_bytes": reading.counted_bytes,
        "rss_bytes": reading.rss_bytes,
        "lifetime_hit_ratio": reading.keyspace_hits / reads if reads else None,
    }


def _access(seen: ServerObservation | None, hit_ratio: float | None) -> float | None:
    return None if seen is None or hit_ratio is None else access_seconds(seen, hit_ratio)


def _kept_now(state: ServerState | None) -> str | None:
    return "no_eviction: it does not evict" if state and not state.evicts else None


def _held(state: SidecarState, name: str) -> dict[str, Any] | None:
    return asdict(hold) if (hold := state.control.held.get(name)) else None


def _curve(curve: MissRatioCurve) -> dict[str, Any]:
    step = math.ceil(len(curve.sizes_bytes) / _MOST_CURVE_POINTS)
    places = sorted({*range(0, len(curve.sizes_bytes), step), len(curve.sizes_bytes) - 1})
    return {
        "sizes_bytes": [float(curve.sizes_bytes[place]) for place in places],
        "miss_ratios": [float(curve.miss_ratios[place]) for place in places],
    }
