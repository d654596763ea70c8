"""Decides which name of this machine a browser may ask under: against DNS rebinding."""

from __future__ import annotations

import ipaddress
import socket
from http import HTTPStatus

from solver_lambda.http.message import RefusedError, Request


class OwnNames:
    """Lets only requests pass whose ``Host`` header names this machine.

    Args:
        anywhere: asked from other machines as well.
    """

    def __init__(self, *, anywhere: bool) -> None:
        self._anywhere = anywhere

    def __call__(self, request: Request) -> None:
        """Check the Host header. Raises RefusedError."""
        if not is_own_name(request.headers.get("host"), anywhere=self._anywhere):
            raise RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "host",
                "the Host header must be localhost or the number of this machine's address",
            )


def is_own_name(host: str | None, *, anywhere: bool) -> bool:
    """Whether a ``Host`` header names this machine, as far as a browser could be fooled.

    A page of somebody else can make a browser ask us under a name of its own, whose address it
    changes to ours. It cannot do so under ``localhost`` or the number of an address.

    Args:
        anywhere: asked from other machines as well: by any number, or the machine's name.
    """
    name = (host or "").rpartition(":")[0] if _has_port(host or "") else host or ""
    name = name.strip("[]").lower().rstrip(".")
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return anywhere and name == socket.gethostname().lower()
    return anywhere or address.is_loopback


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)
