"""Says who is at the other end of a Unix socket, as the kernel tells."""

from __future__ import annotations

import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """Return process id and user id of a connected peer; 0 is a process of another container.

    Raises:
        OSError: it is gone.
    """
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process_id, user_id, _ = _CREDENTIALS.unpack(told)
    return process_id, user_id
