"""Holds the secret by which the sidecar knows a server's sampler."""

from __future__ import annotations

import hmac
import secrets
import time

from sidecar.samples.wire_format import SECRET_BYTES

# Samplers send what they have once a second at least.
_ON_THEIR_WAY_SECONDS = 3.0
# A server that is busy gets our secret when it answers.
_FORMER_SECONDS = 60.0


class SamplerKey:
    """Holds the key of one server, made anew by each sidecar. Whoever sends samples shows it in
    each batch.

    Attributes:
        secret: for the server alone, which gets it by CONFIG SET.
        threshold: T that its sampler is to have; 0: as the configuration says.
        is_awaited: whether it is ours who listen where it will be shown.
    """

    def __init__(self) -> None:
        self.is_awaited = True
        self.threshold = 0
        self.secret = secrets.token_bytes(SECRET_BYTES)
        # T and P: with others, a few samples would stand for very many reads.
        self._given: tuple[int, int] | None = None
        self._former: tuple[int, int] | None = None
        self._given_at_seconds = 0.0
        self._shown_at_seconds = time.monotonic()
        self._was_shown = False

    def opens(self, shown: bytes) -> bool:
        """Whether this is the secret, in a time that tells nothing of it."""
        is_it = hmac.compare_digest(shown, self.secret)
        if is_it:
            self._shown_at_seconds = time.monotonic()
            self._was_shown = True
        return is_it

    @property
    def expects_former(self) -> bool:
        """Whether its sampler may still show the secret of the sidecar before."""
        return not self._was_shown and self.silent_seconds < _FORMER_SECONDS

    def give(self, threshold: int, modulus: int) -> None:
        """Its sampler is given these, with the secret."""
        if (threshold, modulus) != self._given:
            self._former, self._given = self._given, (threshold, modulus)
            self._given_at_seconds = time.monotonic()

    def fits(self, threshold: int, modulus: int) -> bool:
        """Whether they are what it was given last, or, just after that, what it had before: a batch
        may be half full then. Any, if it was given none."""
        if self._given is None or (threshold, modulus) == self._given:
            return True
        is_soon = time.monotonic() - self._given_at_seconds < _ON_THEIR_WAY_SECONDS
        return is_soon and (threshold, modulus) == self._former

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since it was last shown, or made."""
        return time.monotonic() - self._shown_at_seconds
