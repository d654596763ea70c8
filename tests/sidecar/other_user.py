"""Another user of this machine; to be him for a moment takes root."""

from __future__ import annotations

import os
import socket


def strangers_listener(port: int = 0, host: str = "127.0.0.1") -> socket.socket:
    """His, of the version of the address alone."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    os.seteuid(65534)
    try:
        return socket.create_server((host, port), family=family)
    finally:
        os.seteuid(0)
