"""Whether the port for browsers and Prometheus is free, or the sidecar's."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.preflight.finding import Finding
from sidecar.preflight.listeners import listener_finding, tcp_listener
from solver_lambda.http.listening import LOCALHOST, listen_at

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
