"""The secret by which the sidecar knows a server's sampler."""

from __future__ import annotations

import hmac
import secrets
import time

from sidecar.samples.wire_format import SECRET_BYTES


class SamplerKey:
    """Of one server, made anew by each sidecar; whoever sends samples shows it in each batch.

    Attributes:
        secret: for the server alone, which gets it by CONFIG SET.
        is_awaited: whether it is ours who listen where it will be shown.
    """

    def __init__(self) -> None:
        self.is_awaited = True
        self.secret = secrets.token_bytes(SECRET_BYTES)
        # T and P: with others, a few samples would stand for very many reads.
        self._given: list[tuple[int, int]] = []
        self._shown_at_seconds = time.monotonic()

    def opens(self, shown: bytes) -> bool:
        """Whether this is the secret, in a time that tells nothing of it."""
        is_it = hmac.compare_digest(shown, self.secret)
        if is_it:
            self._shown_at_seconds = time.monotonic()
        return is_it

    def give(self, threshold: int, modulus: int) -> None:
        """Its sampler is given these, with the secret."""
        self._given = [*self._given, (threshold, modulus)][-2:]

    def fits(self, threshold: int, modulus: int) -> bool:
        """Whether they are what it was given last, or before, as samples may still be on their way;
        any, if it was given none."""
        return not self._given or (threshold, modulus) in self._given

    @property
    def silent_seconds(self) -> float:
        """Since it was last shown, or made."""
        return time.monotonic() - self._shown_at_seconds
