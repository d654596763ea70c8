"""``[planning]``: how plans are made, with its times written as durations."""

from __future__ import annotations

import math

from sidecar.config.fields import duration
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.documents.reader import Fields

_SECONDS = "_seconds"


def read_planning(table: object, source: str, path: str) -> PlanningSettings:
    """The settings of the observation, from the table at ``path`` of the file ``source``;
    ``horizon = "1h"`` stands for its ``horizon_seconds``.

    Raises:
        DocumentError: one sentence naming the file, the key and the value at fault.
    """
    return PlanningSettings.from_json(_WithDurations(table, source, path))


class _WithDurations(Fields):
    """A table of the operator's file, read by the rules of the observation."""

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
