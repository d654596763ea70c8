"""Binds the samples' endpoint where somebody else may hold its address: the sidecar runs without
it."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack

from sidecar.base.metrics import Metrics
from sidecar.samples.endpoint import bind_endpoint, is_open
from sidecar.samples.receiver import SampleReceiver
from sidecar.samples.sampler_key import SamplerKey

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
# Whoever shares the file system may have filled it.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class LateEndpoint:
    """Binds it when it can be; a context manager. Until then no server is told its secret, which
    would go to whoever listens there.

    Attributes:
        receiver: at the endpoint; ``None``: somebody else has its address.
        problem: that, for people.
    """

    def __init__(
        self,
        endpoint: str,
        group: int | None,
        keys: Collection[SamplerKey],
        metrics: Metrics,
        processes: Callable[[], Collection[int]],
    ) -> None:
        self._endpoint = endpoint
        self._group = group
        self._keys = keys
        self._metrics = metrics
        self._processes = processes
        self._held = ExitStack()
        self._looked_at = 0.0
        self.receiver: SampleReceiver | None = None
        self.problem: str | None = None

    def __enter__(self) -> LateEndpoint:
        """Bind it if possible. Raises OSError: it can never be bound; or its file, which nobody
        else can take."""
        self._bind()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def look(self) -> None:
        """Again and again, by one thread: bind what could not be bound."""
        if self.receiver is None and time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._bind()

    def _bind(self) -> None:
        self._looked_at = time.monotonic()
        bound = bind_endpoint(
            self._endpoint, self._metrics, self._group, len(self._keys), self._processes
        )
        try:
            self.receiver = self._held.enter_context(bound)
        except OSError as error:
            number = getattr(error.__cause__, "errno", None)
            is_taken = number == errno.EADDRINUSE and is_open(self._endpoint)
            if self.problem is None and not (is_taken or number in _NO_ROOM):
                raise
            self._metrics.listeners_not_bound.labels("sampling.endpoint").inc()
            self.problem = f"{error}, so no server is sampled; it is tried again"
            log.warning("%s", self.problem)
        else:
            if self.problem is not None:
                log.info("sampling.endpoint: it is bound now")
            self.problem = None
        for key in self._keys:
            key.is_awaited = self.receiver is not None
