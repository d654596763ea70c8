"""Says who may do what: a guard lets a request pass by making a proof, and nobody else makes
one."""

from __future__ import annotations

import hmac
from dataclasses import InitVar, dataclass
from http import HTTPStatus

from solver_lambda.http.message import RefusedError, Request

_SEAL = object()


class Admitted:
    """A guard has let a request pass."""


@dataclass(frozen=True)
class Anybody(Admitted):
    """Proves that somebody reached the listener, who may read, and change nothing."""


@dataclass(frozen=True)
class Authorised(Admitted):
    """Proves that somebody may change things; the guards here alone make it.

    Attributes:
        by: who it is, as the system or the token says, for people.
        party: with whom it shares what one may do (``Peer.party``).
        uid: of the user, as the kernel says; ``None``: only the token is known.

    Raises:
        TypeError: somebody else makes one.
    """

    by: str
    party: str
    seal: InitVar[object]
    uid: int | None = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only a guard can say who is authorised")


def anybody(_: Request) -> Anybody:
    """Return the guard of what all may read who reach the listener."""
    return Anybody()


class TokenGuard:
    """Lets pass who has the token in ``Authorization: Bearer``.

    Args:
        words: why nobody else passes, for people.

    Attributes:
        token: the one that counts now.
    """

    def __init__(self, token: str, words: str) -> None:
        if not token:
            raise ValueError("an empty token would let everybody pass")
        self.token = token
        self._words = words

    def __call__(self, request: Request) -> Authorised:
        """Let the token's holder pass. Raises RefusedError."""
        if not is_token(request.headers.get("authorization"), self.token):
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED, "token", self._words, {"WWW-Authenticate": "Bearer"}
            )
        return Authorised(
            f"the holder of the token at {request.peer.user}", request.peer.party, _SEAL
        )


class PeerGuard:
    """Lets pass who could open a Unix socket: the rights of its file say who can."""

    def __call__(self, request: Request) -> Authorised:
        """Let the peer pass. Raises RefusedError: the request came another way."""
        if request.peer.uid is None:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "peer", "this is only done over the Unix socket"
            )
        return Authorised(request.peer.user, request.peer.party, _SEAL, request.peer.uid)


class NobodyGuard:
    """Lets nobody pass, and says why."""

    def __init__(self, code: str, words: str) -> None:
        self._code = code
        self._words = words

    def __call__(self, _: Request) -> Authorised:
        """Let nobody pass. Raises RefusedError."""
        raise RefusedError(HTTPStatus.FORBIDDEN, self._code, self._words)


def is_token(authorization: str | None, token: str) -> bool:
    """Whether an ``Authorization`` header has the token; takes as long for each wrong one."""
    scheme, _, given = (authorization or "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and right
