"""Tells a service manager such as systemd what it wants to know: ready, alive, stopping
(sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

from sidecar.base.metrics import Metrics

log = logging.getLogger(__name__)


class ServiceNotice:
    """Tells the socket that ``NOTIFY_SOCKET`` names; does nothing where there is none.

    ``environment``: of the process. For one thread.
    """

    def __init__(self, metrics: Metrics, environment: Mapping[str, str] = os.environ) -> None:
        self._metrics = metrics
        address = environment.get("NOTIFY_SOCKET", "")
        # An abstract name, as Linux has them.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._period_seconds = _watchdog_seconds(environment)
        self._fed_at = self._seen_at = -float("inf")
        self._sign_of_life: float | None = None
        self._status = ""

    def ready(self) -> None:
        """All servers were asked, and the endpoint for samples is bound."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """The service ends; what it had set stays."""
        self._tell("STOPPING=1")

    def alive(self, sign_of_life: float, status: str) -> None:
        """Tell it again and again, from the main loop. ``sign_of_life`` changes with each turn of
        the other loop. While it stands still for longer than half the watchdog's period, the
        watchdog is not fed. ``status`` is a line for people."""
        now = time.monotonic()
        if sign_of_life != self._sign_of_life:
            self._sign_of_life, self._seen_at = sign_of_life, now
        if status != self._status:
            self._status = status
            self._tell(f"STATUS={status}")
        if self._period_seconds is None:
            return
        is_alive = now - self._seen_at <= self._period_seconds / 2
        if is_alive and now - self._fed_at >= self._period_seconds / 4:
            self._fed_at = now
            self._tell("WATCHDOG=1")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(text.encode(), self._address)
        except OSError as error:
            self._metrics.service_notices_lost.inc()
            log.debug("the service manager was not told %s: %s", text, error)


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return the watchdog's time, if there is one, and for this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isdecimal() and int(text) else None
