"""Shows what commands, the page and the metrics know of the sidecar."""

from __future__ import annotations

from typing import Any, Protocol

from sidecar.base.metrics import Metrics
from sidecar.control.order import Order


class SidecarView(Protocol):
    """Shows a running sidecar, seen from outside. Any thread may ask; nothing but ``order`` waits
    for a server or a lock."""

    metrics: Metrics

    def status(self) -> dict[str, Any]:
        """Return the status document: see ``status_document``."""

    def series(self) -> dict[str, Any]:
        """Return sizes and hit ratios over time: see ``series``."""

    def history(self, limit: int, before: int) -> list[bytes]:
        """Return decisions as JSON texts: the last ones before the one of this number, the newest
        last."""

    def order(self, order: Order) -> str:
        """Carry it out; return what was done, for people. Raises OrderRefusedError."""
