"""Keeps a server to one sidecar: two would undo each other's sizes.

There are two ways, because neither sees everything. All users of a machine see a name in the
kernel (an abstract socket). It needs no folder and no permission, and goes with the process; a
container with a network of its own has names of its own. A client name on the server itself is
seen from everywhere, where the sidecar's user may set and list them
(``+client|setname +client|list``).

Anybody can take such a name. So it counts only where the holder is our own user, as the kernel says
of the socket and the server says of the client. Another one may not make us let a server go.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import Future

from sidecar.base.kernel_waits import unix_stream
from sidecar.base.worker import Worker
from solver_lambda.http.peer import peer_credentials

log = logging.getLogger(__name__)

_CLIENT_PREFIX = "spreds:"
_HOST = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
# The name of this process on every server. The last part tells apart processes with equal ids in
# two containers.
CLIENT_NAME = f"{_CLIENT_PREFIX}{_HOST}:{os.getpid()}:{secrets.token_hex(4)}"

# A client's line. Others may begin with the prefix, such as an application that names itself after
# us. The last part may be missing, so that no line is searched twice; a host has no longer name.
_CLIENT = re.compile(
    rf"^id=(?P<id>\d{{1,20}}) (?:[^\n]*? )??"
    rf"name=(?P<name>{_CLIENT_PREFIX}(?P<host>[A-Za-z0-9._-]{{0,64}}):(?P<pid>\d{{1,20}}):[0-9a-f]{{8}})"
    rf"(?:$|(?= )(?:[^\n]*? user=(?P<user>[^ \n]*))?)",
    re.MULTILINE,
)


# No line of a sidecar is longer.
_MOST_LINE = 4096
# Seconds that the holder of a name, who may be anybody, is waited for.
_PATIENCE_SECONDS = 0.5
# So many that only connect keep nobody from asking; so many connections are ended at a time.
_BACKLOG, _MOST_ENDING = 4096, 256


class ServerTakenError(Exception):
    """Another sidecar controls the server; the message names it."""


class SameServerError(Exception):
    """We control the server already, by another name of the configuration."""


class ServerLock:
    """Holds one process of a server until ``close``, or until our process ends.

    Where another user holds its name, there is none: that is logged and counts for nothing.

    Raises:
        ServerTakenError: another process of our user, or of root, holds it.
        SameServerError: we do.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._lock = unix_stream()
        self._ends, self._ending = Worker("ends visits of a lock"), list[Future[None]]()
        try:
            self._lock.bind(_address(run_id))
            # The kernel tells a client who listens.
            self._lock.listen(_BACKLOG)
            self._lock.setblocking(False)
        except OSError as error:
            self.close()
            if error.errno != errno.EADDRINUSE:
                why = error.strerror or str(error)
                raise ServerTakenError(f"its lock in the kernel cannot be made: {why}") from error
            self._refuse_if_ours()

    def _refuse_if_ours(self) -> None:
        process_id, user_id = _holder(self.run_id) or (None, None)
        if (process_id, user_id) == (os.getpid(), os.geteuid()):
            raise SameServerError(
                "it is one server with another of the configuration: give it one name, or it lies "
                "about its run_id"
            )
        if process_id is not None and user_id in (0, os.geteuid()):
            raise ServerTakenError(f"it is controlled by the sidecar with process id {process_id}")
        # A holder that does not answer may be anybody as well.
        log.warning(
            "%s holds the name of a server's lock and is no sidecar of ours: that is not believed, "
            "and two sidecars of our user see each other by their client names only",
            "somebody who does not answer" if user_id is None else f"the user {user_id}",
        )

    def make_room(self) -> None:
        """Hang up on those who have asked: who waits for long takes us for somebody else."""
        self._ending = [one for one in self._ending if not one.done()]
        try:
            while len(self._ending) < _MOST_ENDING:
                connection, _ = self._lock.accept()
                # It is not closed here: what was sent there may let us wait, see ``kernel_waits``.
                self._ending.append(self._ends.submit(connection.close))
        except OSError:
            pass  # nobody is left, or no descriptor: then at the next turn

    def close(self) -> None:
        """Let others have it; may be called twice."""
        self._lock.close()
        self._ends.close()


class CurrentProcessLock:
    """Holds the lock of whichever process a server is now."""

    def __init__(self) -> None:
        self._lock: ServerLock | None = None

    def hold(self, run_id: str) -> None:
        """Hold the lock of this process, and of no other. Raises as ``ServerLock``."""
        if self._lock is None or self._lock.run_id != run_id:
            self.release()
            self._lock = ServerLock(run_id)
        self._lock.make_room()

    def release(self) -> None:
        """Let others have the server; may be called twice."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def holder_of(run_id: str) -> int | None:
    """Return the process id of our user's, or root's, who holds a server's lock here; takes
    nothing."""
    process_id, user_id = _holder(run_id) or (None, None)
    return process_id if user_id in (0, os.geteuid()) else None


def _address(run_id: str) -> bytes:
    """The name says nothing of the run id, which is seen in ``/proc/net/unix``."""
    digest = hashlib.sha256(f"spreds-server-{run_id}".encode()).hexdigest()
    return f"\0spreds-server-{digest[:32]}".encode()


def _holder(run_id: str) -> tuple[int, int] | None:
    """Return process and user who listens at a lock's name; ``None``: nobody, or nobody answers."""
    with unix_stream() as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        try:
            probe.connect(_address(run_id))
        except OSError:
            return None
        return peer_credentials(probe)


def _named_like_us(clients: str) -> Iterator[re.Match[str]]:
    """Yield the lines of sidecars. Only lines with such a name are searched: a list may be of any
    length, and no other thread runs meanwhile."""
    end = 0
    while (at := clients.find(f"name={_CLIENT_PREFIX}", end)) >= 0:
        first = max(end, at - _MOST_LINE)
        start = max(first, clients.rfind("\n", first, at) + 1)
        newline = clients.find("\n", at, at + _MOST_LINE)
        end = newline if newline >= 0 else min(len(clients), at + _MOST_LINE)
        if found := _CLIENT.match(clients[start:end]):
            yield found


def check_clients(clients: str, username: str | None = None) -> None:
    """Check CLIENT LIST of a server, with ours in it, for a sidecar that came before us.

    Only one with our own Redis user counts, ``username`` or else the default one; a server without
    users has one for all. Our name is known to all servers: it proves nobody to be us.

    Raises:
        ServerTakenError: there is one.
        TypeError: it is no text.
    """
    ours = (None, username or "default")
    sidecars = [one for one in _named_like_us(clients) if one["user"] in ours]
    own = (one for one in sidecars if one["name"] == CLIENT_NAME)
    us = max(own, key=lambda one: int(one["id"]), default=None)
    if us is None:
        return
    for one in sidecars:
        is_other = one["name"] != CLIENT_NAME
        if is_other and int(one["id"]) < int(us["id"]):
            raise ServerTakenError(
                f"it is controlled by the sidecar with process id {one['pid']} on {one['host']}"
            )
