"""Whether a server may be asked for another size now."""

from __future__ import annotations

import logging

from sidecar.servers.back_off import BackOff

log = logging.getLogger(__name__)

# Who changes a server's size again so soon after it was put back means it.
CONTEST_SECONDS = 60.0


class SizeRefusal:
    """Why one server is asked for no other size, and until when; each time for longer.

    It refuses, or somebody else keeps setting another one.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._refused = BackOff()
        self._contested = BackOff()
        self.reason: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask again."""
        return self.reason is not None and self._refused.is_over and self._contested.is_over

    def refuse(self, why: str) -> None:
        """It refused a size."""
        self._keep(why, self._refused.fail())

    def contest(self, *, evicts: bool) -> None:
        """Somebody changed its size: put back once, but not fought about again and again."""
        again = self._contested.failed_within(CONTEST_SECONDS)
        if not again:
            self._contested.reset()
        pause_seconds = self._contested.fail()
        if again and evicts:
            self._keep("somebody keeps setting its maxmemory", pause_seconds)

    def give_another_try(self) -> None:
        """It might take a size now; if it does not, the next pause is longer."""
        self.reason = None

    def take_back(self) -> None:
        """It took a size."""
        self.reason = None
        self._refused.reset()

    def forget(self) -> None:
        """It is another process now."""
        self.take_back()
        self._contested.reset()

    def _keep(self, why: str, pause_seconds: float) -> None:
        self.reason = why
        log.warning(
            "server %s keeps its size, the others go on: %s; next try in %.0f s",
            self._server,
            why,
            pause_seconds,
        )
