"""Remembers who had the port of an emulator of AWS on this machine when the sidecar started."""

from __future__ import annotations

from urllib.parse import urlsplit

from solver_lambda.http.listening_sockets import addresses_of, listening_users, nobody_in_particular

# By host and port.
_believed: dict[tuple[str, int], frozenset[int]] = {}


def believe_listeners(endpoint_url: str) -> None:
    """Believe in all of this process's time who listens there when this is first called. It is for
    a sidecar, which stays: whoever comes before a short command may be anybody."""
    host, port = place = _place_of(endpoint_url)
    if place in _believed:
        return
    try:
        users = listening_users(addresses_of(host, port), port)
    except (OSError, UnicodeError):  # it can be asked for no plan either
        users = set()
    _believed[place] = frozenset(users - {nobody_in_particular()})


def believed_listeners(endpoint_url: str) -> frozenset[int]:
    """Return the users; none where ``believe_listeners`` was not called."""
    return _believed.get(_place_of(endpoint_url), frozenset())


def _place_of(endpoint_url: str) -> tuple[str, int]:
    url = urlsplit(endpoint_url)
    return url.hostname or "", url.port or 80
