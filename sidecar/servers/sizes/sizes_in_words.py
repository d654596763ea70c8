"""Tells the sizes that servers have, and what keeps them from those that are planned, for
people."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence

from sidecar.base.log_setup import BOUNDED
from sidecar.config.node import ServerConfig
from sidecar.servers.sizes.transitions import ServerState
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


def sizes_in_words(states: Sequence[ServerState], under_way: Collection[str]) -> str:
    """Return a sentence on all servers. ``under_way``: those whose memory is being handed over."""
    left_out = {state.name: _left_out(state, state.name in under_way) for state in states}
    near = "at their sizes"
    if under_way:
        near = "on the way to their sizes"
    elif any(left_out.values()):
        near = "as near to their sizes as they can be"
    sizes = ", ".join(
        f"{state.name} {limit_words(state)}{left_out[state.name]}" for state in states
    )
    return f"servers are {near}: {sizes}"


def limit_words(state: ServerState) -> str:
    """Write its ``maxmemory`` for people."""
    size_bytes = state.maxmemory_bytes
    if size_bytes < math.inf:
        return format_size(size_bytes)
    # It may have any, if it hangs since before we came.
    return "no limit" if state.reachable else "no known limit"


def found_size(size_bytes: int) -> str:
    """Write a ``maxmemory``, of which 0 is none."""
    return format_size(size_bytes) if size_bytes else "without a limit"


def found_in_words(
    servers: Sequence[ServerConfig], found_bytes: Mapping[str, int], sizes_bytes: Mapping[str, int]
) -> str:
    """Say what the sidecar found, and what it makes of it."""
    before = ", ".join(
        f"{one.name} {found_size(found_bytes[one.name]) if one.name in found_bytes else 'down'}"
        for one in servers
    )
    after = ", ".join(f"{name} {format_size(size)}" for name, size in sizes_bytes.items())
    return f"{before}; to have {after}"


def ordered_sizes(
    sizes_bytes: Mapping[str, int], had_bytes: Mapping[str, int] | None = None
) -> str:
    """Write sizes that an order goes back to, 0 for no limit, each beside ``had_bytes`` if that is
    another one."""
    had = {**sizes_bytes, **(had_bytes or {})}
    return ", ".join(
        f"{name} {_ordered(size)}" + (f" (from {_ordered(had[name])})" if had[name] != size else "")
        for name, size in sizes_bytes.items()
    )


def _ordered(size_bytes: int) -> str:
    return format_size(size_bytes) if size_bytes else "no limit"


def handed_over(size_bytes: float, target_bytes: int) -> str:
    """Say what a server on the way to its planned size waits for."""
    return "gets the rest as it fills" if size_bytes < target_bytes else "gives as others fill"


def _left_out(state: ServerState, is_under_way: bool) -> str:
    """Say what keeps it from its planned size; empty if it has it."""
    if not state.reachable:
        return " (out of reach)"
    if state.maxmemory_bytes == state.target_bytes:
        return ""
    why = "waits for memory"
    if state.refuses:
        why = "it refuses"
    elif not state.evicts:
        why = "does not evict"
    elif state.held:
        why = "set by hand"
    elif is_under_way:
        why = handed_over(state.maxmemory_bytes, state.target_bytes)
    return f" (planned {format_size(state.target_bytes)}, {why})"


def beside_words(
    found_bytes: Mapping[str, int], planned_bytes: Mapping[str, int], fixed: Collection[str]
) -> str:
    """Name servers that keep more than is planned for them; empty if there are none."""
    beside = ", ".join(
        f"{name}, which has {format_size(found_bytes[name])}"
        for name in sorted(fixed)
        if found_bytes[name] > planned_bytes.get(name, found_bytes[name])
    )
    return f", beside {beside}" if beside else ""


def tell_needs(too_small: Collection[str], known_replicas: Collection[str]) -> str:
    """Say what the others make room for; it is logged."""
    found = set(too_small)
    names = ", ".join(sorted(found.difference(known_replicas)))
    replicas = ", ".join(sorted(found.intersection(known_replicas)))
    if names:
        log.warning("%s would refuse writes: nothing there can be evicted; it grows", names)
    if not replicas:
        return f"room for what {names} cannot evict"
    words = f"{replicas} follows its primary, and uses more than it counts with: it grows"
    log.info("%s", words, extra=BOUNDED)
    held = f"room for what {replicas} holds as a replica"
    return f"{held}, and for what {names} cannot evict" if names else held
