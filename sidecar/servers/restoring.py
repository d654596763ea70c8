"""Servers that are given back: their former sizes, whatever the budget is."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sidecar.base.metrics import Metrics
from sidecar.servers.redis_server import ServerDownError, ServerRefusedError
from sidecar.servers.server_watch import ServerWatch

log = logging.getLogger(__name__)


def restore_sizes(
    watches: Mapping[str, ServerWatch], sizes_bytes: Mapping[str, int], metrics: Metrics
) -> dict[str, str]:
    """At once, those that shrink first; 0 is no limit.

    Returns:
        Why, of those that did not take it.
    """
    failed = {}
    for name in sorted(sizes_bytes, key=lambda name: watches[name].grows_to(sizes_bytes[name])):
        try:
            _restore(watches[name], sizes_bytes[name])
            metrics.config_set_maxmemory.labels(name).inc()
        except (ServerRefusedError, ServerDownError) as error:
            metrics.transitions_failed.labels(name).inc()
            failed[name] = str(error)
    return failed


def _restore(watch: ServerWatch, size_bytes: int) -> None:
    if watch.last is None:
        raise ServerDownError("it does not answer")
    if not watch.grows_to(size_bytes) and watch.save_settings():
        watch.enter_shrink_mode()
    watch.set_maxmemory(size_bytes)


def end_shrink_modes(watches: Mapping[str, ServerWatch]) -> None:
    """Of servers that nobody shrinks any more, unless they still free memory."""
    for watch in watches.values():
        if watch.last is None or not watch.state(watch.last.size_bytes).in_shrink_mode:
            continue
        if watch.state(watch.last.size_bytes).still_frees:
            continue
        try:
            watch.leave_shrink_mode()
        except (ServerRefusedError, ServerDownError) as error:
            log.debug("server %s stays in shrink mode for now: %s", watch.name, error)
