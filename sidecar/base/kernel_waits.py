"""Ends waits in the kernel that others bring about, and that no timeout of ours ends.

Whoever writes to a Unix socket may send descriptors with a message. Whoever drops the last one of a
TCP connection waits until what was sent there is taken, in ``close`` or in a plain ``recv``. The
connection's maker decides how long that may last (SO_LINGER).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
import time
from contextlib import suppress

# Of socket(7), since Linux 6.16.
_SO_PASSRIGHTS = 83
# A signal ends such a wait. This one is ignored where there is no handler.
_SIGNAL, _INTERVAL_SECONDS = signal.SIGURG, 1.0


def unix_stream() -> socket.socket:
    """Return a Unix socket, to listen or to connect, that takes no descriptors."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    take_no_descriptors(made)
    return made


def take_no_descriptors(unix_socket: socket.socket) -> None:
    """Take no descriptors: who sends some from now on gets an error. Older kernels cannot do it."""
    with suppress(OSError):
        unix_socket.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)


def end_waits() -> None:
    """Send each thread of this process a signal once a second, which does nothing else. Nothing
    where that is done already, or by another thread than the main one."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(_SIGNAL) is _do_nothing:
        return
    signal.signal(_SIGNAL, _do_nothing)
    threading.Thread(target=_run, name="ends waits", daemon=True).start()


def _do_nothing(*_: object) -> None:
    """The system call that it comes in ends, or goes on."""


def _run() -> None:
    # This needs the kernel's number: ``pthread_kill`` of a thread that just ended ends the process.
    kill, own = ctypes.CDLL(None).tgkill, os.getpid()
    while True:
        time.sleep(_INTERVAL_SECONDS)
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                kill(own, thread.native_id or 0, int(_SIGNAL))
