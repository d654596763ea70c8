"""Whether a server may be asked for another size now."""

from __future__ import annotations

import logging

from sidecar.base.metrics import Metrics
from sidecar.servers.back_off import BackOff

log = logging.getLogger(__name__)


class SizeRefusal:
    """Keeps what one server refused, and until when it is asked for no other size; each time for
    longer.

    Somebody else who keeps setting its size is no reason: that is put back each time.
    """

    def __init__(self, server: str, metrics: Metrics) -> None:
        self._server = server
        self._failed = metrics.transitions_failed.labels(server)
        self._refused = BackOff()
        self.reason: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask again."""
        return self.reason is not None and self._refused.is_over

    def refuse(self, why: str) -> None:
        """Note that it refused a size."""
        self.reason = why
        self._failed.inc()
        log.warning(
            "server %s keeps its size, the others go on: %s; next try in %.0f s",
            self._server,
            why,
            self._refused.fail(),
        )

    def give_another_try(self) -> None:
        """Let it try a size again; if it does not take it, the next pause is longer."""
        self.reason = None

    def take_back(self) -> None:
        """Forget the refusal: it took a size, or is another process now."""
        self.reason = None
        self._refused.reset()
