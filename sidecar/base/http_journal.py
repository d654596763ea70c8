"""Counts, and logs within bounds, HTTP requests that were not answered."""

from __future__ import annotations

import logging

from prometheus_client import Counter

from sidecar.base.log_setup import BOUNDED
from solver_lambda.http.message import Peer

log = logging.getLogger(__name__)


class HttpJournal:
    """Counts and logs what one listener refuses.

    Args:
        refused: has the label ``reason``.
        what: what is refused there, for people.
    """

    def __init__(self, refused: Counter, what: str = "request") -> None:
        self._refused = refused
        self._what = what

    def refused(self, peer: Peer, code: str, why: str) -> None:
        """A client broke a rule, or there was no room for it."""
        self._refused.labels(code).inc()
        log.info("%s refused: %s: %s (%s)", self._what, code, why, peer.user, extra=BOUNDED)

    def failed(self, what: str, error: Exception) -> str:
        """Say what the client is told of a fault of ours."""
        log.error("a request could not be answered: %s", what, exc_info=error)
        return "the sidecar cannot answer this now; its log says why"
