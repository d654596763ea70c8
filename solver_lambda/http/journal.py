"""Whom a listener tells of requests that were not answered."""

from __future__ import annotations

from typing import Protocol

from solver_lambda.http.message import Peer


class Journal(Protocol):
    """Of one listener; any thread may call."""

    def refused(self, peer: Peer, code: str, why: str) -> None:
        """A request broke a rule, or there was no room for it: a stranger can bring it about."""

    def failed(self, what: str, error: Exception) -> str:
        """A handler has a fault; what the client is told."""
