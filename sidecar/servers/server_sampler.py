"""Keeps a server's sampler (patch or module) at its settings."""

from __future__ import annotations

import logging

from sidecar.base.metrics import Metrics
from sidecar.config.sampling import SamplingConfig
from sidecar.servers.back_off import BackOff
from sidecar.servers.redis_server import RedisServer, ServerDownError, ServerRefusedError
from sidecar.servers.server_reading import ServerReading

log = logging.getLogger(__name__)


class ServerSampler:
    """Of one server."""

    def __init__(self, server: RedisServer, sampling: SamplingConfig, metrics: Metrics) -> None:
        self._server = server
        self._sampling = sampling
        self._metrics = metrics
        self._refused = BackOff()
        self._prefix: str | None = None
        # Its knobs from before us, but for the endpoint.
        self._found: dict[str, str] = {}

    def follow(self, reading: ServerReading, is_new: bool) -> None:
        """Give the sampler its settings, where ``reading`` says that it has others.

        ``is_new``: the process has not been read before. A sampler that refuses is asked again
        after a while, each time a longer one.
        """
        name = self._server.name
        self._prefix = reading.sampler_prefix
        if is_new:
            self._refused.reset()
            knobs = [f"{self._prefix}{knob}" for knob in ("modulus", "threshold")]
            self._found = {knob: reading.config[knob] for knob in knobs if knob in reading.config}
            if self._prefix is None:
                log.warning("server %s has no sampler (patch or module)", name)
        if not self._refused.is_over:
            return
        try:
            if self._server.start_sampling(reading, self._sampling):
                again = "" if is_new else " again: somebody had changed its sampler's settings"
                log.info("server %s samples to %s%s", name, self._sampling.endpoint, again)
                self._refused.reset()
        except (ServerDownError, ServerRefusedError) as error:
            self._metrics.sampler_refused.labels(name).inc()
            log.warning(
                "server %s: the sampler took no settings: %s; next try in %.0f s",
                name,
                error,
                self._refused.fail(),
            )

    def turn_off(self) -> None:
        """When the sidecar stops; what was found is put back. Raises as ``RedisServer``."""
        if self._prefix is not None:
            self._server.stop_sampling(self._prefix, self._found)
