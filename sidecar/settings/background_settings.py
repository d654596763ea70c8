"""Reads teams' settings in time for an observation, also where the store does not answer."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future

from sidecar.base.metrics import Metrics
from sidecar.base.worker import Worker
from sidecar.settings.settings_reader import SettingsReader
from sidecar.settings.team_settings import TeamSettings

log = logging.getLogger(__name__)

# The store answers in milliseconds, or it has a difficulty that an observation should not wait for.
LONGEST_SECONDS = 5.0


class BackgroundSettings:
    """Reads in a thread of its own; what is not read in time leaves the settings before it.

    Attributes:
        in_force: the last ones that were read, or those from before a restart.
    """

    def __init__(self, reader: SettingsReader, metrics: Metrics) -> None:
        self._reader = reader
        self._metrics = metrics
        self._worker = Worker("settings")
        self._reading: Future[dict[str, TeamSettings]] | None = None
        self._asked_at: float | None = None
        self.in_force = reader.in_force

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for them."""
        return self._asked_at is not None

    @property
    def refused(self) -> dict[str, str]:
        """Say why what teams set is not in force, by server."""
        return self._reader.refused

    def ask(self) -> None:
        """Begin to read, unless a read that began before is still under way."""
        self._asked_at = time.monotonic()
        self._take()
        if self._reading is None:
            self._reading = self._worker.submit(self._reader.read)

    def answer(self) -> dict[str, TeamSettings] | None:
        """Return the settings in force, or ``None`` while they are still waited for."""
        assert self._asked_at is not None
        self._take()
        if self._reading is not None:
            if time.monotonic() - self._asked_at < LONGEST_SECONDS:
                return None
            self._metrics.settings_late.inc()
            log.warning("settings are not read in time, the last ones hold")
        self._asked_at = None
        return self.in_force

    def close(self) -> None:
        """Close the worker; returns at once."""
        self._worker.close()

    def _take(self) -> None:
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            error = reading.exception()
            if error is None:
                self.in_force = reading.result()
                return
            # A store that breaks us must not end the sidecar.
            self._metrics.settings_failures.inc()
            log.error("settings could not be read, the last ones hold: %r", error, exc_info=error)
