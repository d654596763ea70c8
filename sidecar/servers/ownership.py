"""Which servers of a node are controlled by another sidecar."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from sidecar.servers.server_watch import ServerWatch
from sidecar.state.node_lock import NodeLockedError


def claim_ownership(watches: Mapping[str, ServerWatch]) -> None:
    """Look whether another sidecar controls any of the servers; changes nothing on them. They are
    asked side by side, as some may hang, and then claimed in the file's order: where two say that
    they are the same process, the first one is ours, and the other one is left alone.

    One that is taken is left alone, and looked at again. Where all are, there is nothing to do.

    Raises:
        NodeLockedError: another sidecar controls all servers.
    """
    with ThreadPoolExecutor(len(watches)) as pool:
        answers = {name: pool.submit(watch.contact.meet) for name, watch in watches.items()}
    taken = {
        name: watches[name].contact.claim(run_id) if (run_id := answer.result()) else None
        for name, answer in answers.items()
    }
    if all(taken.values()):
        raise NodeLockedError("; ".join(f"server {name}: {who}" for name, who in taken.items()))
