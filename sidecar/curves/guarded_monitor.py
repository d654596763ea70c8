"""A server whose figures break its monitor loses its curve, and no other server anything."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sidecar.base.log_setup import event_of
from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.curves.decaying_counts import HalfLife
from sidecar.curves.estimate import Estimate
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.monitor_snapshot import Learnt, learnt_of, restore
from sidecar.samples.batch import Batch
from sidecar.servers.connection.reading_window import ReadingWindow
from sidecar.servers.connection.server_reading import ServerReading

# Ten times what a server serves: it would outweigh all others the more, the more it claims.
MOST_RATE = 1e7

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class GuardedMonitor(ServerMonitor):
    """Runs a monitor, and begins anew when what its server or sampler says cannot be computed with.

    Attributes:
        learnt: by an earlier process, to go on with if the first batch is of the same keys.
    """

    def __init__(self, name: str, config: SidecarConfig, metrics: Metrics) -> None:
        self._live_objects = config.sampling.live_objects
        self._metrics = metrics
        self.learnt: Learnt | None = None
        self.name, self.cycle_seconds = name, config.cycle.maximum_age_seconds
        self._begin_anew()

    def take(self, batch: Batch) -> None:
        """Take a batch as ``ServerMonitor`` does."""
        learnt, self.learnt = self.learnt, None
        if learnt is not None and self._guarded(lambda: restore(self, learnt, batch)):
            log.info("server %s: its curve goes on as before the restart", self.name)
        self._guarded(lambda: super(GuardedMonitor, self).take(batch))

    def step(self, seconds: float) -> None:
        """Close a step as ``ServerMonitor`` does."""
        self._guarded(lambda: super(GuardedMonitor, self).step(seconds))

    def observe(
        self,
        reading: ServerReading,
        budget_bytes: int,
        window: ReadingWindow | None = None,
        half_life: HalfLife | None = None,
    ) -> Estimate | None:
        """Close a window as ``ServerMonitor`` does; ``None`` also where that cannot be done.

        What a replica served tells nothing of what a primary does, nor the other way round.
        """
        if self.previous is not None and self.previous.role != reading.role:
            log.info("server %s: its curve begins anew, for its role is another", self.name)
            self._begin_anew()

        def observe() -> Estimate | None:
            found = super(GuardedMonitor, self).observe(reading, budget_bytes, window, half_life)
            if found is not None and not found.request_rate_per_second <= MOST_RATE:
                raise ValueError(f"{found.request_rate_per_second:g} reads a second")
            return found

        return self._guarded(observe)

    def kept(self) -> Learnt | None:
        """Return what is to outlive this process, if anything."""
        return self._guarded(lambda: learnt_of(self)) or self.learnt

    def _guarded(self, call: Callable[[], Result]) -> Result | None:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - one server must not end the others' sidecar
            self._metrics.monitors_begun_anew.labels(self.name).inc()
            log.warning(
                "server %s: its curve begins anew, for its figures cannot be computed with: %s: %s",
                self.name,
                type(error).__name__,
                error,
                extra=event_of(self.name),
            )
            self._begin_anew()
            return None

    def _begin_anew(self) -> None:
        super().__init__(
            self.name, live_objects=self._live_objects, cycle_seconds=self.cycle_seconds
        )
