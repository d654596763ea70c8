"""Reads ``[planning]``: how plans are made, with its times written as durations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from sidecar.config.fields import duration
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.documents.reader import Fields

_SECONDS = "_seconds"


# The default of how long a plan is expected to last. By the memory that was handed over gradually
# it matters little, as long as it is not a single cycle (``workloads experiment gain``).
HORIZON_CYCLES = 10


class Planning(NamedTuple):
    """Has ``settings`` of the observation; see ``SidecarConfig`` for ``forecasts``."""

    settings: PlanningSettings
    forecasts: bool


def read_planning(table: object, source: str, path: str, *, cycle_seconds: float) -> Planning:
    """Read the table at ``path`` of the file ``source``; ``horizon = "1h"`` stands for its
    ``horizon_seconds``. ``cycle_seconds`` is the longest time between two plans.

    Raises:
        DocumentError: one sentence naming the file, the key and the value at fault.
    """
    fields = _WithDurations(table, source, path)
    forecasts = fields.text("forecast", "competing", ("competing", "last")) != "last"
    has_horizon = fields.has("horizon")
    settings = PlanningSettings.from_json(fields)
    if not has_horizon:
        cycles = HORIZON_CYCLES if forecasts else 1
        settings = replace(settings, horizon_seconds=cycles * cycle_seconds)
    return Planning(settings, forecasts)


class _WithDurations(Fields):
    """Reads a table of the operator's file by the rules of the observation."""

    def number(
        self,
        key: str,
        default: object = ...,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        above: float = -math.inf,
    ) -> float:
        if not key.endswith(_SECONDS):
            return super().number(key, default, low=low, high=high, above=above)
        assert isinstance(default, float)
        name = key.removesuffix(_SECONDS)
        return duration(self, name, default=default, above=above, high=high)
