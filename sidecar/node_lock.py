"""One sidecar a node: two would undo each other's sizes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.config.node import SidecarConfig


class NodeLockedError(OSError):
    """Another sidecar runs; the message names the file and the process."""


def lock_path(config: SidecarConfig) -> Path | None:
    """Beside the state file or else the samples' socket.

    ``None`` without either: a TCP port or an abstract socket can be bound only once anyway.
    """
    address = config.sampling.endpoint.removeprefix("ipc://")
    socket = Path(address) if address.startswith("/") else None
    beside = config.state_file or socket
    return beside.with_name(f"{beside.name}.lock") if beside else None


@contextmanager
def node_lock(path: Path | None) -> Iterator[None]:
    """Hold the lock; the kernel releases it with the process, however that ends.

    Raises:
        NodeLockedError: another process holds it.
        OSError: the file cannot be made.
    """
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file stays: who removes one while another opens it lets both in.
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise NodeLockedError(
                f"{path}: locked by the sidecar with process id {holder}: "
                "one sidecar a node, or they would undo each other's sizes"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
