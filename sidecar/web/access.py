"""Who may ask over TCP: names of the host against DNS rebinding, and the token for orders."""

from __future__ import annotations

import hmac
import ipaddress
import socket


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


def is_token(authorization: str | None, token: str) -> bool:
    """Whether an ``Authorization`` header has the token; takes as long for each wrong one."""
    scheme, _, given = (authorization or "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and right


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)
