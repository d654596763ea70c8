"""Finds the rate at which a server's keys are sampled, where it is to find itself."""

from __future__ import annotations

import math

from sidecar.config.sampling import DEFAULT_RATE, SamplingConfig
from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.sampler_key import SamplerKey

LOOK_SECONDS = 10.0
# A sample costs the server less than a microsecond, and the sidecar as much
# (docs/research/measured.md): so many are less than a hundredth of a core.
MOST_SAMPLES_PER_SECOND = 5_000.0
# The objects of a higher rate have no history, and are learnt first: not for less.
_LEAST_INCREASE = 4.0
# This part of the most objects that are kept is enough.
_WANTED_SHARE = 1 / 4
# The rate does not rise again so soon, where a load comes and goes.
_BETWEEN_INCREASES_SECONDS = 60.0


class SamplingRate:
    """Sets T of one server's sampler. A quarter of the objects that its monitor may keep are to be
    there, and no more than ``MOST_SAMPLES_PER_SECOND`` in a second. T is not less than the default
    for that. Policies that are simulated, which is dear, are sampled at the default rate.

    What it chooses is the ``threshold`` of the key.
    """

    def __init__(self, sampling: SamplingConfig, key: SamplerKey) -> None:
        self._key, self._is_automatic = key, sampling.is_automatic
        if not (key.threshold and sampling.is_automatic):
            key.threshold = sampling.threshold
        self._modulus = sampling.modulus
        self._wanted_objects = _WANTED_SHARE * sampling.live_objects
        self._looked_at_seconds, self._increased_at_seconds = 0.0, -math.inf
        # The last look's process, T, and how many samples it had sent.
        self._counted = (0, 0, 0)

    def look(self, monitor: ServerMonitor, now_seconds: float) -> None:
        """Choose anew each ``LOOK_SECONDS``, by what the monitor knows."""
        seconds = now_seconds - self._looked_at_seconds
        if not self._is_automatic or seconds < LOOK_SECONDS:
            return
        self._looked_at_seconds = now_seconds
        last = monitor.last_batch
        if last is None:
            return
        before, old = self._counted, self._key.threshold
        self._counted = (last.instance, last.threshold, last.sampled)
        if before[:2] != self._counted[:2] or last.threshold != old or last.sampled < before[2]:
            return  # it has not done for so long what it does now
        chosen = self._chosen(monitor, old, (last.sampled - before[2]) / seconds)
        if chosen > old:
            if now_seconds - self._increased_at_seconds < _BETWEEN_INCREASES_SECONDS:
                return
            self._increased_at_seconds = now_seconds
        self._key.threshold = chosen

    def _chosen(self, monitor: ServerMonitor, old: int, samples_per_second: float) -> int:
        """Return T in place of ``old``, at which that many samples come."""
        shards, least = monitor.shards, round(DEFAULT_RATE * self._modulus)
        if shards.simulation is not None:
            return min(old, least)
        affordable = old * MOST_SAMPLES_PER_SECOND / max(1.0, samples_per_second)
        affordable = min(max(float(least), affordable), float(self._modulus))
        if affordable <= old / 2:
            return round(affordable)
        if not shards.threshold or monitor.previous is None:
            return old  # nobody knows how many keys it has
        objects = max(len(shards) / shards.rate, float(monitor.previous.keys), 1.0)
        found = min(self._wanted_objects / objects * self._modulus, affordable)
        return old if old / 2 < found < _LEAST_INCREASE * old else max(1, round(found))
