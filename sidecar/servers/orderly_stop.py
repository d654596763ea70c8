"""Leaves every server in order when the sidecar stops, and waits for none that hangs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

from sidecar.servers.server_watch import ServerWatch

log = logging.getLogger(__name__)

# Under a heavy load an answer waits for what others have sent before.
LEAVE_SECONDS = 2.0


def leave_in_order(watches: Iterable[ServerWatch]) -> None:
    """Leave them side by side; what a server that does not answer still needs is on file. Those for
    whom no thread can be started are left one after the other, as far as there is time."""
    until = time.monotonic() + LEAVE_SECONDS
    leaving, without_thread = [], []
    for watch in watches:
        thread = threading.Thread(target=watch.leave, name=watch.name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            without_thread.append(watch)
        else:
            leaving.append(thread)
    hanging = []
    for watch in without_thread:
        if time.monotonic() < until:
            watch.leave()
        else:
            hanging.append(watch.name)
    for thread in leaving:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            hanging.append(thread.name)
    for name in hanging:
        log.warning("server %s could not be left in order: it, or one before it, hangs", name)
