"""Tells which transitions are to be carried out now, and carries one out on its server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.sizes.memory_budget import MemoryBudget
from sidecar.servers.sizes.transitions import (
    EnterShrinkMode,
    Grow,
    LeaveShrinkMode,
    ServerState,
    Shrink,
    Transition,
    resolve,
)

log = logging.getLogger(__name__)


def due(states: Sequence[ServerState], budget: MemoryBudget) -> Iterator[Transition]:
    """Yield what ``resolve`` allows. While resident memory is too high, servers that shrank go on
    defragmenting: evictions leave pages half empty, and they would come back too slowly."""
    for transition in resolve(states, budget.bytes):
        if not (isinstance(transition, LeaveShrinkMode) and budget.waits_for_pages):
            yield transition


class Applied(NamedTuple):
    """Says whether there was anything to do, whether some of it was done, and which servers did not
    take theirs."""

    moved: bool
    done: bool
    failed: frozenset[str]


def apply_in_order(
    transitions: Iterable[Transition],
    watches: Mapping[str, ServerWatch],
    metrics: Metrics,
    stop: threading.Event,
) -> Applied:
    """Carry them out until ``stop``. Once one has failed nobody grows, for what that gives may be
    missing. All others shrink: one server keeps nobody from that."""
    moved, done, failed = False, False, set[str]()
    for transition in transitions:
        moved = True
        if stop.is_set() or (failed and isinstance(transition, Grow)):
            break
        name = transition.name
        if name in failed:
            continue
        if apply_transition(transition, watches[name], metrics):
            done = True
        else:
            failed.add(name)
    return Applied(moved, done, frozenset(failed))


def growths_beside(
    failed: frozenset[str],
    tried: Sequence[ServerState],
    now: Sequence[ServerState],
    budget: MemoryBudget,
) -> Iterator[Transition]:
    """Yield growths into what is really free, where servers ``failed`` to change: these count with
    what they have, and keep nobody else small. ``tried``: the states that transitions went by."""
    has = {state.name: state for state in now}
    states = [
        replace(
            has[one.name], floor_bytes=one.floor_bytes, refuses=one.refuses or one.name in failed
        )
        for one in tried
    ]
    return (one for one in resolve(states, budget.bytes) if isinstance(one, Grow))


def apply_transition(transition: Transition, watch: ServerWatch, metrics: Metrics) -> bool:
    """Whether it was done; a failure is counted, and noted by the watch."""
    try:
        match transition:
            case EnterShrinkMode():
                # What is normal must be on file before it changes. If it cannot be, the shrink
                # does not wait: memory that is missing hurts all servers, for as long as it is.
                if not watch.save_settings():
                    metrics.shrinks_without_mode.labels(watch.name).inc()
                    return True
                watch.enter_shrink_mode()
            case LeaveShrinkMode():
                watch.leave_shrink_mode()
            case Shrink(to_bytes=to_bytes) | Grow(to_bytes=to_bytes):  # pragma: no branch
                # By now somebody else may have given it less: then it would grow, unasked.
                if isinstance(transition, Shrink) and (
                    not watch.can_shrink_now(to_bytes) or watch.grows_to(to_bytes)
                ):
                    return False
                watch.set_maxmemory(to_bytes)
                metrics.config_set_maxmemory.labels(watch.name).inc()
    except ServerRefusedError as error:
        watch.refused(error)
        return False
    except ServerDownError as error:
        metrics.transitions_failed.labels(watch.name).inc()
        watch.failed(error)
        return False
    metrics.transitions.labels(watch.name).inc()
    log.debug("%s", transition)
    return True


def resize_returned_server(
    watch: ServerWatch, sizes_bytes: Mapping[str, int], metrics: Metrics
) -> None:
    """A server that was just found to be another process, or to answer again, first of all gives
    what it has above its size. Until then the sum may exceed the budget. One that does not evict
    gets what its own file lacks, which nobody else has taken yet: it would keep that size, and
    refuse writes."""
    size_bytes = sizes_bytes.get(watch.name)
    if size_bytes is None or not watch.take_arrival():
        return
    state = watch.state(size_bytes)
    may_be_set = state.reachable and not state.refuses and not state.held
    if may_be_set and not state.evicts and state.maxmemory_bytes < size_bytes:
        apply_transition(Grow(watch.name, int(state.maxmemory_bytes), size_bytes), watch, metrics)
        return
    if not state.maxmemory_bytes > state.goal_bytes:
        return
    if state.held_bytes > size_bytes and not state.in_shrink_mode:
        apply_transition(EnterShrinkMode(watch.name), watch, metrics)
    apply_transition(Shrink(watch.name, state.maxmemory_bytes, size_bytes), watch, metrics)
