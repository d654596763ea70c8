"""Gives servers back their former sizes, whatever the budget is."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import replace

from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.server_watch import ServerWatch
from sidecar.state.state_store import StateStore

log = logging.getLogger(__name__)


def restore_sizes(
    watches: Mapping[str, ServerWatch],
    sizes_bytes: Mapping[str, int],
    metrics: Metrics,
    stop: threading.Event,
) -> dict[str, str]:
    """Restore those that shrink first, at once; then those that grow, as far as there is room
    beside those that did not shrink. 0 is no limit. A server that does not evict is not shrunk: it
    would refuse writes.

    Returns:
        Why, of those that do not have theirs yet.
    """
    missing: dict[str, str] = {}
    shrink: list[str] = []
    for name in sorted(sizes_bytes, key=lambda name: watches[name].grows_to(sizes_bytes[name])):
        watch, size_bytes = watches[name], sizes_bytes[name]
        if stop.is_set():
            missing[name] = "the sidecar stops"
            continue
        if shrink and watch.grows_to(size_bytes):
            missing[name] = f"it waits for {', '.join(shrink)}"
            size_bytes = _fitting_bytes(name, watches, sizes_bytes)
            if not watch.grows_to(size_bytes):
                continue
        try:
            _restore(watch, size_bytes)
            metrics.config_set_maxmemory.labels(name).inc()
        except (ServerRefusedError, ServerDownError) as error:
            metrics.transitions_failed.labels(name).inc()
            missing[name] = str(error)
            if not watch.grows_to(size_bytes):
                shrink.append(name)
    return missing


def _fitting_bytes(
    name: str, watches: Mapping[str, ServerWatch], sizes_bytes: Mapping[str, int]
) -> int:
    """Return what a server may have for all to stay within the sum of the sizes; 1 if that cannot
    be told."""
    others = (
        watches[other].state(size).maxmemory_bytes
        for other, size in sizes_bytes.items()
        if other != name
    )
    room_bytes = sum(sizes_bytes.values()) - sum(others)
    if not all(sizes_bytes.values()) or not math.isfinite(room_bytes):
        return 1
    return max(1, min(sizes_bytes[name], int(room_bytes)))


def _restore(watch: ServerWatch, size_bytes: int) -> None:
    if watch.last is None:
        raise ServerDownError("it does not answer")
    if not watch.grows_to(size_bytes) and watch.save_settings():
        watch.enter_shrink_mode()
    watch.set_maxmemory(size_bytes)


def go_on_restoring(
    watches: Mapping[str, ServerWatch],
    store: StateStore,
    metrics: Metrics,
    stop: threading.Event,
) -> dict[str, str]:
    """Restore the ``restoring_bytes`` of the control state, as ``restore_sizes`` does. Then it has
    those that are missing."""
    sizes_bytes = store.now.control.restoring_bytes
    missing = restore_sizes(watches, sizes_bytes, metrics, stop)
    left = {name: size for name, size in sizes_bytes.items() if name in missing}
    with store.update() as state:
        state.control = replace(state.control, restoring_bytes=left)
    return missing


def end_shrink_modes(watches: Mapping[str, ServerWatch]) -> None:
    """End shrink mode where nobody shrinks a server any more, unless it still frees memory."""
    for watch in watches.values():
        if watch.last is None or not watch.state(watch.last.size_bytes).in_shrink_mode:
            continue
        if watch.state(watch.last.size_bytes).still_frees:
            continue
        try:
            watch.leave_shrink_mode()
        except (ServerRefusedError, ServerDownError) as error:
            log.debug("server %s stays in shrink mode for now: %s", watch.name, error)
