"""Holds what a client asks, and what goes back to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv6Address, IPv6Network
from typing import NamedTuple

_MOST_UID = 2**32 - 1  # which means nobody
JSON = "application/json; charset=utf-8"
# Nobody else's page may read an answer, or show ours in a frame; an answer may say otherwise.
ALWAYS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Peer(NamedTuple):
    """Holds the other end of a connection, as the system knows it.

    Attributes:
        address: its IP address, ``""`` at a Unix socket.
        uid: its user at a Unix socket, else ``None``.
    """

    address: str = ""
    uid: int | None = None

    @property
    def user(self) -> str:
        """Return ``root (uid 0)``, or the address."""
        return self.address if self.uid is None else user_of(self.uid)

    @property
    def party(self) -> str:
        """Return whoever shares bounds: a user, all users without a name, an address, a /64 of
        IPv6."""
        if self.uid is not None:
            # One user may have 65,536 numbers without a name (/etc/subuid).
            return name_of(self.uid) or "users without a name"
        return _network_of(self.address) if ":" in self.address else self.address


def user_of(uid: int) -> str:
    """Return a user of this machine, for people."""
    name = name_of(uid)
    return f"uid {uid}" if name is None else f"{name} (uid {uid})"


def uid_of(user: str) -> int:
    """Return the number of a user by name or number. Raises ValueError: there is none of this
    name."""
    import pwd

    if user.isascii() and user.isdigit() and int(user) < _MOST_UID:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ValueError(f"there is no user {user!r} here") from None


def users_in_words(uids: Iterable[int]) -> str:
    """Name all these users; empty: there are none."""
    return " and ".join(map(user_of, sorted(uids)))


@lru_cache(maxsize=256)
def name_of(uid: int) -> str | None:
    """Return the name of a user of this machine; ``None``: he has none."""
    # Imported here: a platform without users needs no names of theirs.
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


@lru_cache(maxsize=256)
def _network_of(address: str) -> str:
    """Whoever has one address of version 6 has all of its network, unless it stands for one of
    version 4."""
    found = IPv6Address(address.partition("%")[0])
    return str(found.ipv4_mapped or IPv6Network((found, 64), strict=False))


@dataclass(frozen=True)
class Request:
    """Holds a request, read once: nobody looks at its bytes again.

    Attributes:
        method: in capitals.
        path, query: the target before and after its first ``?``, printable ASCII.
        headers: by name in small letters; what came several times is joined by commas.
        length: bytes of the body as announced, ``None`` if nothing is.
        body: whole, once a handler sees it.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    peer: Peer
    length: int | None = None
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """Return the body's type, without parameters, in small letters; ``""`` if it is not
        said."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Answer:
    """Holds status, body, and headers beside those that each answer has."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    def head(self) -> bytes:
        """Return what stands before the body. The connection is closed after each answer."""
        headers = {
            "Date": formatdate(usegmt=True),
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Connection": "close",
            **ALWAYS,
            **self.headers,
        }
        lines = [f"HTTP/1.0 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


class RefusedError(Exception):
    """A request is not answered; the message says why, ``code`` counts it."""

    def __init__(
        self, status: HTTPStatus, code: str, why: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(why)
        self.code = code
        self.answer = json_answer({"error": why}, status, headers)


def malformed(why: str) -> RefusedError:
    """Return the error to raise for a request that breaks the rules of HTTP, or of what it asks
    for."""
    return RefusedError(HTTPStatus.BAD_REQUEST, "malformed", why)


def crowded(why: str) -> RefusedError:
    """Return the error to raise for a request that there is no room for now."""
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE, "crowded", f"{why}: come again", {"Retry-After": "5"}
    )


def json_answer(
    document: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Answer:
    """Answer with JSON. Raises ValueError: a number is not finite, which JSON cannot say."""
    body = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    return Answer(status, body + b"\n", JSON, headers or {})
