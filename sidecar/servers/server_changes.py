"""Tells what happened to a server between two readings, for people."""

from __future__ import annotations

import logging
import math

from sidecar.base.log_setup import event_of
from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.state.control_state import ControlState
from solver_lambda.documents.units import format_duration, format_size

log = logging.getLogger(__name__)

# A server tells whole seconds.
_CLOCKS_DIFFER_SECONDS = 5.0


def tell_changes(
    name: str,
    last: ServerReading | None,
    reading: ServerReading,
    expected_bytes: float | None,
    metrics: Metrics,
    control: ControlState,
) -> bool:
    """Log and count restarts, changes by others, odd figures and policies that forbid a shrink.

    ``expected_bytes``: what we left in force, ``None`` if that is not known for sure. Returns
    whether somebody changed it.
    """
    _tell_odd_figures(name, last, reading, metrics)
    if last is None:
        if not reading.evicts:
            log.warning(
                "server %s does not evict (%s): it keeps its size", name, reading.why_no_eviction
            )
        return False
    then = "its size is put back" if reading.evicts else "it does not evict and keeps it"
    then = then if control.sets_sizes else "nothing is set now"
    if last.run_id != reading.run_id:
        metrics.servers_restarted.labels(name).inc()
        how = "restarted"
        if reading.uptime_seconds > reading.at_seconds - last.at_seconds + _CLOCKS_DIFFER_SECONDS:
            how = (
                f"is another one that has run for {format_duration(reading.uptime_seconds)} (has "
                "its address moved, or is it a balancer's?), and answers"
            )
        words = f"server {name} {how} with maxmemory {_size(reading)}; {then}"
        log.warning("%s", words, extra=event_of(name))
        return False
    if last.evicts and not reading.evicts:
        why = reading.why_no_eviction
        log.warning("server %s does not evict any more (%s): it keeps its size", name, why)
    if expected_bytes in (None, reading.maxmemory_bytes or math.inf):
        return False
    metrics.foreign_changes.labels(name).inc()
    if not reading.evicts:
        log.warning(
            "server %s: somebody set maxmemory to %s; %s",
            name,
            _size(reading),
            then,
            extra=event_of(name),
        )
    return True


def has_more(last: ServerReading | None, reading: ServerReading, most_bytes: float | None) -> bool:
    """Whether the same process has more than the ``most_bytes`` that we can have given it: also
    where it refused a size, or has just come back, that is somebody else's."""
    if last is None or most_bytes is None or last.run_id != reading.run_id:
        return False
    return (reading.maxmemory_bytes or math.inf) > most_bytes


def _tell_odd_figures(
    name: str, last: ServerReading | None, reading: ServerReading, metrics: Metrics
) -> None:
    if odd := set(reading.odd_figures).difference(last.odd_figures if last else ()):
        metrics.odd_figures.labels(name).inc()
        said = ", ".join(sorted(odd))
        log.warning("server %s: what it says of %s makes no sense and is not used", name, said)


def _size(reading: ServerReading) -> str:
    return format_size(reading.maxmemory_bytes) if reading.maxmemory_bytes else "no limit"
