"""Logs once an hour a line on what was counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from sidecar.base.metrics import Metrics
from solver_lambda.documents.units import format_duration

log = logging.getLogger(__name__)

SUMMARY_SECONDS = 3600.0


class HourlySummary:
    """Logs one sidecar's hourly summary; ``turn`` is called as often as one likes."""

    def __init__(self, metrics: Metrics, now: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._now = now
        self._at = now()

    def turn(self) -> None:
        """Log the line, if it is time."""
        age_seconds = self._now() - self._at
        if age_seconds < SUMMARY_SECONDS:
            return
        self._at = self._now()
        told = in_words(self._metrics.since_last_asked())
        log.info("counted in the last %s: %s", format_duration(round(age_seconds)), told)


def in_words(counts: Mapping[str, int]) -> str:
    """Say each name with its count."""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
