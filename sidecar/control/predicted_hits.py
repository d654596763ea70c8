"""Predicts hit ratios by the curves, where the curves say anything."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.curves.curve_readiness import no_curve_reason
from sidecar.plans.plan_knowledge import GUESS_ERROR_RATIO
from sidecar.servers.connection.sampling_method import why_not_sampled
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.observation import Observation, ServerObservation

# Codes of servers whose curve says nothing.
_NO_CURVE = ("no_sampler", "no_samples", "no_model", "no_eviction", "warming_up", "few_samples")


def has_curve(seen: ServerObservation | None, reading: ServerReading | None) -> bool:
    """Whether its curve says anything: one that may be off by half does not. A server that is
    held tells no other reason, so its policy and sampler are looked at as well."""
    if seen is None or (seen.keep_reason or "").startswith(_NO_CURVE):
        return False
    if seen.curve_error_ratio >= GUESS_ERROR_RATIO:
        return False
    if reading is None:
        return True
    return why_not_sampled(reading) is None and no_curve_reason(reading) is None


def predicted_hit_ratios(
    observation: Observation | None,
    readings: Mapping[str, ServerReading],
    wanted_bytes: Mapping[str, int],
) -> dict[str, float]:
    """Predict by the curves of ``observation``, at the sizes that are wanted now, whoever gave
    them, or at those in force where none is wanted. Servers whose curve says nothing are left
    out."""
    sizes = {name: reading.size_bytes for name, reading in readings.items()} | dict(wanted_bytes)
    return {
        server.name: 1.0 - float(server.curve.miss_ratio(float(sizes[server.name])))
        for server in (observation.servers if observation else ())
        if server.name in sizes and has_curve(server, readings.get(server.name))
    }
