"""A trace in its own time: each request is sent when it is due, whatever became of those before."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event

import numpy as np
import numpy.typing as npt

from workloads.load import Load
from workloads.lookaside import PIPELINE_REQUESTS, LookAsideClient

# Sent later than this after it was due, a request is late.
LATE_SECONDS = 0.005


@dataclass(frozen=True)
class TimedReplay:
    """Of the requests that were sent, in order.

    Attributes:
        seconds: from when each was due until the cache had answered it, and those that were sent
            with it; what missed had been filled by then, unless the backend is waited for.
        behind_seconds: from when each was due until it was sent.
    """

    seconds: npt.NDArray[np.float64]
    behind_seconds: npt.NDArray[np.float64]

    @property
    def late(self) -> int:
        """How many were sent later than ``LATE_SECONDS`` after they were due."""
        return int(np.count_nonzero(self.behind_seconds > LATE_SECONDS))

    def percentile(self, percent: float) -> float:
        """Of ``seconds``; 0 where there are none."""
        return float(np.percentile(self.seconds, percent)) if len(self.seconds) else 0.0


def due_seconds(times_seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """When each request of a trace is due, since the first one; never before the one before it.

    Many traces tell whole seconds. The requests of one second are then spread evenly over it:
    nobody sent them all at its start.

    Raises:
        ValueError: all have the same time, or there are none.
    """
    if not len(times_seconds):
        raise ValueError("there are no requests")
    times = np.maximum.accumulate(times_seconds)
    if times[0] == times[-1]:
        raise ValueError("all requests have the same time, so that it has no arrivals of its own")
    if np.all(times == np.floor(times)):
        _, first, count = np.unique(times, return_index=True, return_counts=True)
        places = np.arange(len(times)) - np.repeat(first, count)
        times = times + places / np.repeat(count, count)
    return np.asarray(times - times[0])


def timed_replay(
    load: Load,
    client: LookAsideClient,
    due: npt.NDArray[np.float64],
    *,
    speed: float = 1.0,
    stop: Event | None = None,
) -> TimedReplay:
    """Send ``load``, each request at its time of ``due``, ``speed`` times as fast.

    What is due together, or has become so, travels in one pipeline, as in ``lookaside.replay``.
    ``stop`` ends it early.
    """
    at = due / speed
    backend_seconds = load.backend_seconds.tolist()
    seconds, behind = np.empty(len(load)), np.empty(len(load))
    began = time.monotonic()
    sent = 0
    while sent < len(load) and not (stop and stop.is_set()):
        now = time.monotonic() - began
        if at[sent] > now:
            client.fill_due()
            # A backend's answer, or the end, may come before the next request.
            time.sleep(min(float(at[sent]) - now, LATE_SECONDS))
            continue
        end = min(int(np.searchsorted(at, now, side="right")), sent + PIPELINE_REQUESTS)
        part = slice(sent, end)
        client.request(load.keys[part], load.sizes_bytes[part], backend_seconds[part])
        behind[part] = now - at[part]
        seconds[part] = time.monotonic() - began - at[part]
        sent = end
    client.finish()
    return TimedReplay(seconds[:sent], behind[:sent])
