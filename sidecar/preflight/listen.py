"""Whether the port for browsers and Prometheus is free."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from sidecar.preflight.finding import Finding
from solver_lambda.http.listening import listen_at

_KEY = "operators.listen"
_PATIENCE_SECONDS = 1.0


def check_listen(listen: tuple[str, int] | None, running: bool) -> Iterator[Finding]:
    """Whether it can be bound. ``running``: our sidecar may have it already."""
    if listen is None:
        return
    host, port = listen
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if running and _listens(host, port):
        yield Finding("ok", _KEY, f"{shown} is served by the running sidecar")
        return
    if running:
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


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _PATIENCE_SECONDS).close()
    except OSError:
        return False
    return True
