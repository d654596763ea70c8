"""One sidecar a server: two would undo each other's sizes.

Two ways, because neither sees everything. A name in the kernel (an abstract socket) is seen by all
users of a machine, needs no folder and no permission, and goes with the process; a container with
a network of its own has names of its own. A client name on the server itself is seen from
everywhere, where the sidecar's user may set and list them (``+client|setname +client|list``).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

_CLIENT_PREFIX = "spreds:"
_HOST = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
# The name of this process on every server. The last part tells apart processes with equal ids in
# two containers.
CLIENT_NAME = f"{_CLIENT_PREFIX}{_HOST}:{os.getpid()}:{secrets.token_hex(4)}"

# Others may begin with the prefix, such as an application that names itself after us.
_CLIENT_NAME = re.compile(rf"{_CLIENT_PREFIX}([A-Za-z0-9._-]*):(\d+):[0-9a-f]{{8}}")


class ServerTakenError(Exception):
    """Another sidecar controls the server; the message names it."""


class ServerLock:
    """Held for one process of a server until ``close``, or until our process ends.

    Raises:
        ServerTakenError: another process of this machine holds it, or we do, by another name.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        name = _lock_name(run_id)
        self._lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Says whose lock it is, to who reads /proc/net/unix.
        self._label = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._lock.bind(f"\0{name}")
            self._label.bind(f"\0{name}:{os.getpid()}")
        except OSError as error:
            self.close()
            if error.errno != errno.EADDRINUSE:
                raise
            raise ServerTakenError(_sentence(_holder(name))) from error

    def close(self) -> None:
        """Let others have it; may be called twice."""
        self._lock.close()
        self._label.close()


class CurrentProcessLock:
    """The lock of whichever process a server is now."""

    def __init__(self) -> None:
        self._lock: ServerLock | None = None

    def hold(self, run_id: str) -> None:
        """Hold the lock of this process, and of no other. Raises ServerTakenError."""
        if self._lock is None or self._lock.run_id != run_id:
            self.release()
            self._lock = ServerLock(run_id)

    def release(self) -> None:
        """Let others have the server; may be called twice."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def holder_of(run_id: str) -> str | None:
    """Process id of who holds a server's lock on this machine; takes nothing."""
    return _holder(_lock_name(run_id))


def _lock_name(run_id: str) -> str:
    return f"spreds-server-{run_id}"


def _holder(name: str) -> str | None:
    """Process id in the label beside a lock."""
    found = re.search(rf"@{re.escape(name)}:(\d+)$", Path("/proc/net/unix").read_text(), re.M)
    return found[1] if found else None


def _sentence(holder: str | None) -> str:
    if holder == str(os.getpid()):
        return "it is one server with another of the configuration: give it one name"
    return f"it is controlled by the sidecar with process id {holder or 'unknown'}"


def check_clients(clients: Iterable[Mapping[str, str]]) -> None:
    """Check the connections of a server, ours among them, for a sidecar that came before us.

    Raises:
        ServerTakenError: there is one.
    """
    sidecars = [
        (int(client["id"]), found)
        for client in clients
        if (found := _CLIENT_NAME.fullmatch(client.get("name", "")))
    ]
    ours = max((number for number, name in sidecars if name[0] == CLIENT_NAME), default=0)
    for number, name in sidecars:
        if number < ours and name[0] != CLIENT_NAME:
            raise ServerTakenError(
                f"it is controlled by the sidecar with process id {name[2]} on {name[1]}"
            )
