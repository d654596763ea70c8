"""All servers of a node are ours, or none."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from sidecar.servers.server_lock import ServerTakenError
from sidecar.servers.server_watch import ServerWatch
from sidecar.state.node_lock import NodeLockedError


def claim_all(watches: Mapping[str, ServerWatch]) -> None:
    """Make sure that no other sidecar controls any of the servers; changes nothing on them. They
    are asked side by side: some may hang.

    Raises:
        NodeLockedError: another one does, or two names lead to one server.
    """
    with ThreadPoolExecutor(len(watches)) as pool:
        claims = {name: pool.submit(watch.contact.claim) for name, watch in watches.items()}
    for name, claim in claims.items():
        try:
            claim.result()
        except ServerTakenError as error:
            raise NodeLockedError(f"server {name}: {error}") from error
