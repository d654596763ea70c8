"""Whether the port for browsers and Prometheus is free."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from sidecar.preflight.finding import Finding

_KEY = "operators.listen"


def check_listen(listen: tuple[str, int] | None, running: bool) -> Iterator[Finding]:
    """Whether it can be bound. ``running``: our sidecar has it already."""
    if listen is None:
        return
    host, port = listen
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if running:
        yield Finding("ok", _KEY, f"{shown} is served by the running sidecar")
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        yield Finding(
            "problem",
            _KEY,
            f"{shown} cannot be bound: {error.strerror or error}",
            f"take another port, or end what listens there (ss -ltnp 'sport = :{port}' names it)",
        )
        return
    yield Finding("ok", _KEY, f"{shown} can be bound")
