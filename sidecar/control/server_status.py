"""Tells what the status document says of one server, in its units."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sidecar.base.plain_text import quoted
from sidecar.config.node import ServerConfig
from sidecar.control.predicted_hits import has_curve
from sidecar.control.problems import NOT_ASKED
from sidecar.control.size_reason import reason_with_planned_change
from sidecar.curves.other_policies import OtherPolicy
from sidecar.observing.observation_cycle import ObservationCycle
from sidecar.observing.team_wishes import effective
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.known_listeners import listened_place
from sidecar.servers.connection.sampling_method import sampler_of, why_not_sampled
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.settings.team_settings import TeamSettings
from sidecar.state.control_state import ControlState
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan
from solver_lambda.planning.effective_access_time import AccessCost

if TYPE_CHECKING:
    from sidecar.control.control_plane import ControlPlane

_MOST_CURVE_POINTS = 200


class KnownServers(NamedTuple):
    """Has by server what is asked of all at once."""

    seen: dict[str, ServerObservation]
    planned: dict[str, ServerPlan]  # as far as no order came after the plan
    predicted_hit_ratios: dict[str, float]
    errors: dict[str, str]

    @classmethod
    def of(
        cls,
        actuator: Actuator,
        cycle: ObservationCycle,
        plane: ControlPlane,
        control: ControlState,
    ) -> KnownServers:
        """Return what is known now."""
        observation, plan = cycle.last_observation, plane.plans.last_plan
        return cls(
            {server.name: server for server in observation.servers} if observation else {},
            _planned(plan, plane.plans.overtaken_by, control.held),
            plane.predicted_hit_ratios(),
            actuator.errors(),
        )


def _planned(
    plan: AdaptationPlan | None, overtaken_by: str | None, held: Container[str]
) -> dict[str, ServerPlan]:
    if plan is None or overtaken_by is not None:
        return {}
    return {server.name: server for server in plan.servers if server.name not in held}


def server_status(
    config: ServerConfig,
    state: SidecarState,
    actuator: Actuator,
    cycle: ObservationCycle,
    plane: ControlPlane,
    known: KnownServers,
) -> dict[str, Any]:
    """Return one server's status, of JSON's types only."""
    name = config.name
    reading, settings = actuator.readings.get(name), cycle.last_settings.get(name)
    seen, planned = known.seen.get(name), known.planned.get(name)
    wanted = effective(config, settings)
    hit_ratio = plane.series.hit_ratios.get(name)
    if hit_ratio is None and seen is not None and _has_run_since(reading, cycle):
        hit_ratio = None if seen.miss_ratio is None else 1 - seen.miss_ratio
    is_known, others = has_curve(seen, reading), cycle.other_policies.get(name, ())
    predicted = known.predicted_hit_ratios.get(name)
    return {
        "name": name,
        "up": reading is not None,
        "error": None if reading else known.errors.get(name, NOT_ASKED),
        **_reading_part(reading),
        "target_bytes": state.targets_bytes.get(name),
        "recommended_bytes": (planned.maxmemory_bytes or None) if planned else None,  # or no limit
        "installed_bytes": state.control.installed_bytes.get(name),  # 0 is no limit
        "minimum_bytes": wanted.minimum_bytes,
        "planned_from_bytes": seen.minimum_bytes if seen else None,
        "maximum_bytes": wanted.maximum_bytes,
        "hit_ratio": hit_ratio,
        "predicted_hit_ratio": predicted,
        "reads_per_second": plane.series.reads_per_second.get(
            name, seen.request_rate_per_second if seen else None
        ),
        "access_time_seconds": _access(seen, hit_ratio),
        "predicted_access_time_seconds": _access(seen, predicted),
        **_recommended_part(plane, seen, planned if is_known else None),
        **_seen_part(wanted, settings, seen, is_known),
        "other_policies": _other_policies(others if is_known else (), reading, planned),
        "listeners": state.listeners.get(listened_place(config.url)),
        "weight": wanted.weight,
        **_settings_part(settings),
        "settings_refused": cycle.settings.refused.get(name),
        "keep_reason": _keep_reason(seen, reading, state, name),
        "held": _held(state, name),
        "wait": _wait(state, name),
        "last_change": _last_change(state, name),
    }


def _has_run_since(reading: ServerReading | None, cycle: ObservationCycle) -> bool:
    """Whether it is the process of the last observation: what another one hit says nothing."""
    if reading is None or cycle.last_observation is None:
        return False
    return reading.uptime_seconds > reading.at_seconds - cycle.last_observation.made_at_seconds


def _settings_part(settings: TeamSettings | None) -> dict[str, Any]:
    values = dict(settings.values) if settings else {}
    return {
        "stated_latency_seconds": values.get("backend_latency_seconds"),
        "team_settings": values if settings else None,
        "settings_by": quoted(settings.set_by) if settings and values else None,
        "settings_version": settings.version if settings else None,
    }


def _seen_part(
    wanted: ServerConfig,
    settings: TeamSettings | None,
    seen: ServerObservation | None,
    has_curve: bool,
) -> dict[str, Any]:
    stated = wanted.backend_latency_seconds
    is_teams = settings is not None and "backend_latency_seconds" in settings.values
    source = stated and ("team" if is_teams else "configured")
    known = seen if has_curve else None
    return {
        "backend_latency_seconds": (seen.backend_latency_seconds or None) if seen else stated,
        "backend_latency_source": seen.backend_latency_source if seen else source,
        "curve_error_ratio": known.curve_error_ratio if known else None,
        "curve": _curve(known.curve) if known else None,
    }


def _other_policies(
    told: Sequence[OtherPolicy], reading: ServerReading | None, planned: ServerPlan | None
) -> list[dict[str, Any]]:
    """Return what it would hit under other policies, with what it has and what is planned."""
    if reading is None:
        return []

    def hits(other: OtherPolicy, size_bytes: int) -> float | None:
        return 1 - float(other.curve.miss_ratio(size_bytes)) if size_bytes else None

    return [
        {
            "setting": other.setting,
            "value": other.value,
            "hit_ratio": hits(other, reading.size_bytes),
            "recommended_hit_ratio": hits(other, planned.maxmemory_bytes) if planned else None,
            "error_ratio": other.error_ratio(reading.size_bytes),
        }
        for other in told
    ]


def _recommended_part(
    plane: ControlPlane, seen: ServerObservation | None, planned: ServerPlan | None
) -> dict[str, Any]:
    """Return what the last plan says of the server's own figures, if it would change sizes."""
    plan = plane.plans.last_plan
    ratio = planned.hit_ratio if planned and plan and plan.decision == "apply" else None
    return {
        "recommended_hit_ratio": ratio,
        "recommended_access_time_seconds": _access(seen, ratio),
        "marginal_gain_seconds_per_mebibyte": (
            planned.marginal_gain_seconds_per_mebibyte if planned else None
        ),
    }


def _reading_part(reading: ServerReading | None) -> dict[str, Any]:
    if reading is None:
        keys = ("role", "replicas", "policy", "sampler", "not_sampled", "look_cost_ratio")
        figures = ("maxmemory_bytes", "used_bytes", "rss_bytes", "unyielding_bytes")
        return dict.fromkeys((*keys, *figures, "not_counted_bytes"))
    return {
        "role": reading.role,
        "replicas": list(reading.replicas),
        "policy": reading.maxmemory_policy,
        "sampler": sampler_of(reading),
        "not_sampled": why_not_sampled(reading),
        "look_cost_ratio": reading.look_cost_ratio if reading.is_looked_at else None,
        "maxmemory_bytes": reading.maxmemory_bytes,
        "used_bytes": reading.counted_bytes,
        "rss_bytes": reading.rss_bytes,
        "unyielding_bytes": reading.unyielding_bytes,
        "not_counted_bytes": reading.not_counted_bytes,
    }


def _access(seen: ServerObservation | None, hit_ratio: float | None) -> float | None:
    if seen is None or hit_ratio is None:
        return None
    return AccessCost.of(seen).mean_seconds(1 - hit_ratio)


def _keep_reason(
    seen: ServerObservation | None, reading: ServerReading | None, state: SidecarState, name: str
) -> str | None:
    """Return the reason of the last observation, unless it is over since."""
    if seen is None:
        return reading.keep_reason() if reading else None
    is_over = {
        "held": name not in state.control.held,
        "waits": state.control.server_wait(name, time.time()) is None,
        "no_sampler": reading is not None and why_not_sampled(reading) is None,
    }
    code = (seen.keep_reason or "").partition(":")[0]
    return None if is_over.get(code) else seen.keep_reason


def _last_change(state: SidecarState, name: str) -> dict[str, Any] | None:
    if (change := state.last_changes.get(name)) is None:
        return None
    words = reason_with_planned_change(change.words, change.from_bytes, change.to_bytes)
    return {**asdict(change), "words": words}


def _held(state: SidecarState, name: str) -> dict[str, Any] | None:
    return asdict(hold) if (hold := state.control.held.get(name)) else None


def _wait(state: SidecarState, name: str) -> dict[str, Any] | None:
    return asdict(wait) if (wait := state.control.server_wait(name, time.time())) else None


def _curve(curve: MissRatioCurve) -> dict[str, Any]:
    step = math.ceil(len(curve.sizes_bytes) / _MOST_CURVE_POINTS)
    places = sorted({*range(0, len(curve.sizes_bytes), step), len(curve.sizes_bytes) - 1})
    return {
        "sizes_bytes": [float(curve.sizes_bytes[place]) for place in places],
        "miss_ratios": [float(curve.miss_ratios[place]) for place in places],
    }
