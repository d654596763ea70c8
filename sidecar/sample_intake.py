"""Gives each batch of samples to the monitor of its server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sidecar.base.metrics import Metrics
from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.receiver import SampleReceiver

RECEIVE_SECONDS = 0.1
# Processor time for samples before the rest of the loop has its turn: the simulated caches of one
# LFU server take 10 to 100 ms for a batch.
SLICE_SECONDS = 0.05


class SampleIntake:
    """``run_ids`` tells the servers' processes, by name, as last seen.

    Attributes:
        by_instance: whose monitor takes a batch, by the number in its header.
    """

    def __init__(
        self,
        monitors: Mapping[str, ServerMonitor],
        run_ids: Callable[[], Mapping[str, str]],
        metrics: Metrics,
    ) -> None:
        self._monitors = monitors
        self._run_ids = run_ids
        self._metrics = metrics
        self.by_instance: dict[int, ServerMonitor] = {}

    def take(self, receiver: SampleReceiver, is_stopped: Callable[[], bool]) -> None:
        """Take what is there, for one slice of time; more stays in the receiver's bounded queue,
        and when that is full, the servers drop."""
        end_seconds = time.thread_time() + SLICE_SECONDS
        for batch in receiver.batches(RECEIVE_SECONDS):
            if batch.instance not in self.by_instance:
                self._metrics.batches_of_unknown_instance.inc()
                self._learn_instances(receiver)
            monitor = self.by_instance.get(batch.instance)
            if monitor is not None:
                monitor.take(batch)
                self._metrics.samples.inc(len(batch.records))
            if is_stopped():
                return
            if time.thread_time() >= end_seconds:
                self._metrics.sample_slices_used_up.inc()
                return

    def _learn_instances(self, receiver: SampleReceiver) -> None:
        self.by_instance = {
            int(run_id[:16], 16): self._monitors[name] for name, run_id in self._run_ids().items()
        }
        receiver.keep_only(self.by_instance)
