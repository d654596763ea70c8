"""Keeps a server's sampler (patch or module) at its settings."""

from __future__ import annotations

import logging
import time

from sidecar.base.metrics import Metrics
from sidecar.config.sampling import SamplingConfig
from sidecar.servers.back_off import BackOff
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.sampling_method import why_not_sampled
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.connection.server_reading import ServerReading

log = logging.getLogger(__name__)

# A sampler sends a batch a second at least.
SILENT_SECONDS = 10.0
_BY_SOMEBODY = " again: somebody had changed its sampler's settings"


class ServerSampler:
    """Keeps one server's sampler at its settings."""

    def __init__(self, server: RedisServer, sampling: SamplingConfig, metrics: Metrics) -> None:
        self._server = server
        self._sampling = sampling
        self._metrics = metrics
        self._refused = BackOff()
        self._silence = BackOff()
        self._has_secret = False
        self._given_at_seconds, self._given_threshold = 0.0, 0
        self._prefix: str | None = None
        # The knobs that it had before us, without the endpoint.
        self._found: dict[str, str] = {}

    def follow(self, reading: ServerReading, is_new: bool) -> None:
        """Give the sampler its settings, where ``reading`` says that it has others, and its secret.

        ``is_new``: the process has not been read before. A sampler that refuses is asked again
        after a while, each time a longer one; so is one that is not heard, for nothing else tells
        that somebody has changed its secret. It is off while another one than we has the endpoint.
        """
        name = self._server.name
        self._prefix = reading.sampler_prefix
        if is_new:
            self._refused.reset()
            self._has_secret = False
            knobs = [f"{self._prefix}{knob}" for knob in ("modulus", "threshold")]
            self._found = {knob: reading.config[knob] for knob in knobs if knob in reading.config}
            if not reading.is_looked_at and (why := why_not_sampled(reading)):
                log.warning("server %s is not sampled: %s", name, why)
        if self._prefix is None or not self._refused.is_over:
            return
        try:
            if self._server.sampler_key.is_awaited:
                self._start(reading)
            elif reading.config.get(f"{self._prefix}endpoint") == self._sampling.endpoint:
                self._server.stop_sampling(self._prefix, {})
                log.warning("server %s: its sampler is off: another program has the endpoint", name)
        except (ServerDownError, ServerRefusedError) as error:
            self._metrics.sampler_refused.labels(name).inc()
            log.warning(
                "server %s: the sampler took no settings: %s; next try in %.0f s",
                name,
                error,
                self._refused.fail(),
            )

    def _start(self, reading: ServerReading) -> None:
        is_silent = self._has_secret and self._is_silent()
        anew = is_silent or not self._has_secret
        threshold = self._server.start_sampling(reading, self._sampling, anew=anew)
        if threshold is None:
            self._refused.reset()
            return
        again = _BY_SOMEBODY
        if is_silent:
            again = " again: nothing has come from it"
        elif not self._has_secret:
            again = ""
        elif threshold != self._given_threshold:
            again = f", {threshold / self._sampling.modulus:.3g} of its keys from now on"
        log.info("server %s samples to %s%s", self._server.name, self._sampling.endpoint, again)
        self._given_threshold = threshold
        if again == _BY_SOMEBODY:  # over and over, perhaps, and each time it may let us wait
            self._refused.fail()
        else:
            self._refused.reset()
        self._has_secret = True
        self._given_at_seconds = time.monotonic()

    def _is_silent(self) -> bool:
        silent_seconds = min(
            self._server.sampler_key.silent_seconds, time.monotonic() - self._given_at_seconds
        )
        if silent_seconds < SILENT_SECONDS:
            return False
        if not self._silence.is_over:
            return False
        self._silence.fail()
        return True

    def turn_off(self) -> None:
        """Turn the sampler off when the sidecar stops, and put back what was found. Raises as
        ``RedisServer``."""
        if self._prefix is not None:
            self._server.stop_sampling(self._prefix, self._found)
