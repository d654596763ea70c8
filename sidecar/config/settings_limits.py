"""Says how far teams' settings may go."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.config.fields import duration, size
from solver_lambda.documents.reader import Fields


@dataclass(frozen=True)
class SettingsLimits:
    """Says how far a team's settings may go (the operator's own values are not limited by
    these)."""

    maximum_minimum_bytes: int
    minimum_weight: float = 0.1
    maximum_weight: float = 10.0
    maximum_backend_latency_seconds: float = 60.0


def read_limits(fields: Fields, half_share_bytes: int) -> SettingsLimits:
    """Read ``[limits]``. Raises DocumentError."""
    low = fields.number("minimum_weight", SettingsLimits.minimum_weight, low=0)
    limits = SettingsLimits(
        minimum_weight=low,
        maximum_weight=fields.number("maximum_weight", SettingsLimits.maximum_weight, low=low),
        maximum_backend_latency_seconds=duration(
            fields,
            "maximum_backend_latency",
            default=SettingsLimits.maximum_backend_latency_seconds,
        ),
        maximum_minimum_bytes=size(fields, "maximum_minimum", default=half_share_bytes),
    )
    fields.done()
    return limits
