"""Finds which process listens at an address, as the kernel says: whoever does answers a connection.

It tells whether the port for browsers and Prometheus is free, or the sidecar's.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from sidecar.base.kernel_waits import unix_stream
from sidecar.preflight.finding import Finding
from solver_lambda.http.listening import LOCALHOST, listen_at
from solver_lambda.http.listening_sockets import listening_sockets
from solver_lambda.http.peer import peer_credentials

_KEY = "operators.listen"


def check_listen(listen: tuple[str, int] | None, process: int | None) -> Iterator[Finding]:
    """Whether it can be bound. ``process``: of our sidecar, which may have it already; 0 if that is
    not known, ``None`` if none runs."""
    if listen is None:
        return
    host, port = listen
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if process is not None:
        hosts = ("127.0.0.1", "::1") if host == LOCALHOST else (host,)
        who = tcp_listener(hosts, port, process)
        found = listener_finding(_KEY, shown, "served", who)
        if found is not None:
            yield found
            return
        yield Finding(
            "advice",
            _KEY,
            f"nothing listens at {shown}, though the sidecar runs: it was started with another "
            "address, or could not bind it",
            "look at 'spreds status', which tells of an address that cannot be bound; restart the "
            "sidecar after a change",
        )
    try:
        for one in listen_at(host, port):
            one.close()
    except OSError as error:
        yield Finding(
            "problem",
            _KEY,
            f"{error.strerror or error}: the sidecar runs, but serves no page, metrics and probes",
            f"take another port, or end what listens there (ss -ltnp 'sport = :{port}' names it)",
        )
        return
    yield Finding("ok", _KEY, f"{shown} can be bound")


# A queue of connections may be full.
_PATIENCE_SECONDS = 1.0


class Listener(Enum):
    """Says who listens. It is ``UNKNOWN`` where only the sidecar's user and root can see it."""

    NOBODY = "nobody"
    SIDECAR = "sidecar"
    OTHER = "other"
    UNKNOWN = "unknown"


def tcp_listener(hosts: Collection[str], port: int, process: int) -> Listener:
    """Say who listens at these numbers of addresses; ``process`` is that of the sidecar, 0 if it is
    not known."""
    sockets = listening_sockets({ipaddress.ip_address(host) for host in hosts}, port)
    found = {f"socket:[{one.inode}]" for one in sockets}
    if not found:
        return Listener.NOBODY
    try:
        own = set(_open_files(process))
    except OSError:
        return Listener.UNKNOWN
    return Listener.SIDECAR if found <= own else Listener.OTHER


def _open_files(process: int) -> Iterator[str]:
    for one in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(one)


def unix_listener(address: str, process: int) -> Listener:
    """Say who listens at a path, or at an abstract name after a zero byte."""
    with unix_stream() as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        try:
            probe.connect(address)
        except (PermissionError, TimeoutError, BlockingIOError):
            return Listener.UNKNOWN
        except OSError:
            return Listener.NOBODY
        listening, _ = peer_credentials(probe)
    if not process or not listening:  # it is of another container
        return Listener.UNKNOWN
    return Listener.SIDECAR if listening == process else Listener.OTHER


def listener_finding(key: str, shown: str, has_it: str, who: Listener) -> Finding | None:
    """Judge an address that the running sidecar should have; ``None``: nobody listens there.

    ``has_it``: ``served`` or ``bound``.
    """
    if who == Listener.SIDECAR:
        return Finding("ok", key, f"{shown} is {has_it} by the running sidecar")
    if who == Listener.OTHER:
        return Finding(
            "problem",
            key,
            f"another process listens at {shown}, and not the sidecar that runs",
            "end it (ss -lp, run by root, names it); "
            + (
                "the sidecar binds the address soon"
                if has_it == "served"
                else "restart the sidecar"
            ),
        )
    if who == Listener.UNKNOWN:
        return Finding(
            "advice",
            key,
            f"a process listens at {shown}, but you may not see whether it is the sidecar",
            "check as the sidecar's user, or as root",
        )
    return None
