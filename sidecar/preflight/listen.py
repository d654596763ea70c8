"""Whether the port for browsers and Prometheus is free."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from sidecar.preflight.finding import Finding

_KEY = "operators.listen"
_PATIENCE_SECONDS = 1.0


def check_listen(listen: tuple[str, int] | None, running: bool) -> Iterator[Finding]:
    """Whether it can be bound. ``running``: our sidecar may have it already."""
    if listen is None:
        return
    host, port = listen
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if running and _listens(family, host, port):
        yield Finding("ok", _KEY, f"{shown} is served by the running sidecar")
        return
    if running:
        yield Finding(
            "advice",
            _KEY,
            f"nothing listens at {shown}, though the sidecar runs: it was started with another "
            "address",
            "restart the sidecar: it listens nowhere else while it runs",
        )
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


def _listens(family: socket.AddressFamily, host: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        return probe.connect_ex((host, port)) == 0
