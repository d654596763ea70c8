"""Which servers of a node are controlled by another sidecar."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from sidecar.servers.server_lock import SameServerError
from sidecar.servers.server_watch import ServerWatch
from sidecar.state.node_lock import NodeLockedError


def claim_all(watches: Mapping[str, ServerWatch]) -> None:
    """Look whether another sidecar controls any of the servers; changes nothing on them. They are
    asked side by side: some may hang.

    One that is taken is left alone, and looked at again. Where all are, there is nothing to do.

    Raises:
        NodeLockedError: another sidecar controls all servers, or two names lead to one server.
    """
    with ThreadPoolExecutor(len(watches)) as pool:
        claims = {name: pool.submit(watch.contact.claim) for name, watch in watches.items()}
    try:
        taken = {name: claim.result() for name, claim in claims.items()}
    except SameServerError as error:
        raise NodeLockedError(f"server {_first_failed(claims)}: {error}") from error
    if all(taken.values()):
        raise NodeLockedError("; ".join(f"server {name}: {who}" for name, who in taken.items()))


def _first_failed(claims: Mapping[str, Future[str | None]]) -> str:
    return next(name for name, claim in claims.items() if claim.exception() is not None)
