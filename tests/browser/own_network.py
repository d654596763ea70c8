"""A network that nobody else of this machine has."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Of linux/sched.h, linux/sockios.h and linux/if.h.
_CLONE_NEWNET, _SIOCSIFFLAGS, _UP_AND_RUNNING = 0x40000000, 0x8914, 0x41
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_network() -> Iterator[None]:
    """Give this thread, and what it starts, its own network: what listens at a port meanwhile is
    out of the reach of other users, as chromedriver runs any program for whoever reaches it. It
    takes root; where that is missing there is a warning, and the network is that of the machine."""
    with Path("/proc/thread-self/ns/net").open() as before:
        if _libc.unshare(_CLONE_NEWNET):
            why = os.strerror(ctypes.get_errno())
            warnings.warn(f"other users of this machine reach chromedriver: {why}", stacklevel=3)
            yield
            return
        try:
            with socket.socket() as any_socket:
                up = struct.pack("16sh", b"lo", _UP_AND_RUNNING)
                fcntl.ioctl(any_socket, _SIOCSIFFLAGS, up)
            yield
        finally:
            _libc.setns(before.fileno(), _CLONE_NEWNET)


def this_network() -> str:
    """The file that stands for the network of this thread."""
    return f"/proc/{os.readlink('/proc/thread-self')}/ns/net"


def enter(network: str) -> None:
    """Enter a network with this thread, and with whatever it starts."""
    with Path(network).open() as there:
        _libc.setns(there.fileno(), _CLONE_NEWNET)
