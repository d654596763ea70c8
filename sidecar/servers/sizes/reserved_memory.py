"""Tells what servers that keep their sizes count with in the budget, whatever they have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidecar.config.node import ServerConfig
from sidecar.servers.sizes.budget_fit import bounded_claims, with_minima_that_fit, within_maxima
from sidecar.servers.sizes.needed_shares import half_share_bytes
from sidecar.servers.sizes.sizes_in_words import limit_words
from sidecar.servers.sizes.transitions import ServerState
from solver_lambda.documents.units import format_size


def excess_bytes(states: Sequence[ServerState], least_used_bytes: Mapping[str, int]) -> int:
    """Return the memory above the limits of servers that will not give it back by themselves, and
    have held it for the whole window. ``least_used_bytes`` is the least that each used."""
    return sum(
        state.held_bytes - int(state.maxmemory_bytes)
        for state in states
        if state.reachable
        and state.is_freeing
        and not state.still_frees
        and least_used_bytes.get(state.name, 0) > state.maxmemory_bytes
    )


def shrunk_bytes(states: Sequence[ServerState]) -> dict[str, int]:
    """Return the limits when all shrinks are done that can be done, and no growth. One that does
    not answer has what it had: what it is to get waits until it does."""
    return {state.name: _shrunk_bytes(state) for state in states}


def _shrunk_bytes(state: ServerState) -> int:
    if state.contested or state.goal_bytes == math.inf:
        return reserved_bytes(state)
    return int(min(state.maxmemory_bytes, state.goal_bytes))


def on_the_way(states: Sequence[ServerState]) -> dict[str, int]:
    """Return sizes in bytes that servers can be brought to, which they may not have yet: those that
    give do so in portions, and those that get wait for that. What a server has was read at another
    moment than what it is to have."""
    return {
        state.name: int(state.goal_bytes)
        for state in states
        if state.moves and state.maxmemory_bytes < math.inf
    }


def reserved_for_unseen(
    states: Sequence[ServerState], seen_bytes: Mapping[str, int], budget_bytes: int
) -> int:
    """Return the bytes that belong to servers that are not among the seen. It is what is planned
    for them, as far as the seen (their sizes in ``seen_bytes``) leave it, and what they have in any
    case. Memory that one silent server is to get from another silent server is not taken from
    the others."""
    unseen = [state for state in states if state.name not in seen_bytes]
    planned = reserved_by_server(unseen)
    has_bytes = sum(int(min(planned[one.name], one.maxmemory_bytes)) for one in unseen)
    left_bytes = budget_bytes - sum(seen_bytes.values())
    return max(has_bytes, min(sum(planned.values()), left_bytes))


def reserved_by_server(states: Sequence[ServerState]) -> dict[str, int]:
    """Return what nobody else may be promised: the planned size, or more that may be in force, as
    far as it counts. What somebody set by hand and that is to be put back is none of it."""
    return {
        state.name: reserved_bytes(state) if state.moves else _counted_bytes_of(state)
        for state in states
    }


def _counted_bytes_of(state: ServerState) -> int:
    return int(min(reserved_bytes(state), max(state.most_counted_bytes, state.target_bytes)))


def reserved_bytes(state: ServerState) -> int:
    """Return what is reserved for one server."""
    if state.contested or state.maxmemory_bytes == math.inf:
        return state.target_bytes
    return max(state.target_bytes, int(state.maxmemory_bytes))


def unmovable(states: Sequence[ServerState]) -> set[str]:
    """Return servers that answer, have a limit, and cannot be given another now. What somebody has
    set by hand and is to be put back is no reason to take from the others, however long that
    takes."""
    return {
        state.name
        for state in states
        if state.reachable
        and not state.moves
        and not state.contested
        and state.maxmemory_bytes < math.inf
    }


def hanging(states: Sequence[ServerState]) -> set[str]:
    """Return servers that do not answer and may have more than they are to have."""
    return {
        state.name
        for state in states
        if not state.reachable and reserved_bytes(state) > state.target_bytes
    }


def counted_bytes(
    servers: Sequence[ServerConfig],
    states: Sequence[ServerState],
    budget_bytes: int,
    least_bytes: Mapping[str, int],
) -> dict[str, int]:
    """Return what each of those that are ``unmovable`` or ``hanging`` counts with: see
    ``bounded_claims``. Who hangs counts with all that it has, or as much of that as leaves the
    others what they need at least. A server that soon goes on is no reason to empty the rest."""
    fixed, hang = unmovable(states), hanging(states)
    if not fixed and not hang:
        return {}
    has = within_maxima(servers, {state.name: reserved_bytes(state) for state in states})
    planned = {state.name: state.target_bytes for state in states}
    beside_hanging = [
        replace(one, minimum_bytes=planned[one.name]) if one.name in hang else one
        for one in servers
    ]
    limits = {one.name: int(one.maxmemory_bytes) for one in states if one.name in fixed}
    counted = bounded_claims(beside_hanging, limits, budget_bytes)
    spare_bytes = budget_bytes - sum(counted.values())
    for server in with_minima_that_fit(servers, budget_bytes):
        if server.name in hang:
            spare_bytes -= planned[server.name]
        elif server.name not in fixed:
            spare_bytes -= max(server.minimum_bytes, least_bytes.get(server.name, 0))
    for name in sorted(hang):
        more = max(0, min(has[name] - planned[name], spare_bytes))
        counted[name] = planned[name] + more
        spare_bytes -= more
    return counted


def with_counted(
    servers: Sequence[ServerConfig],
    states: Sequence[ServerState],
    budget_bytes: int,
    least_bytes: Mapping[str, int],
) -> list[ServerState]:
    """Return the states with three more figures: what each server needs, what a server that keeps
    its size counts for, and what one holds that frees nothing. The last leaves each other server
    half of an equal share at least, as the server may lie."""
    counted = counted_bytes(servers, states, budget_bytes, least_bytes)
    return [
        replace(
            state,
            most_counted_bytes=counted.get(state.name, math.inf),
            held_bytes=_held_bytes(state, states, budget_bytes),
            least_bytes=least_bytes.get(state.name, 0),
        )
        for state in states
    ]


def _held_bytes(state: ServerState, states: Sequence[ServerState], budget_bytes: int) -> int:
    if not state.stuck:
        return state.held_bytes
    half_bytes = half_share_bytes(len(states), budget_bytes)
    others_bytes = sum(
        max(other.maxmemory_bytes, min(other.target_bytes, half_bytes))
        for other in states
        if other.name != state.name
    )
    most_bytes = max(state.maxmemory_bytes, budget_bytes - others_bytes)
    return int(min(state.held_bytes, most_bytes))


def takers(states: Sequence[ServerState], budget_bytes: int) -> dict[str, str]:
    """Return a sentence for each server for which the budget is exceeded, as it takes more than it
    counts with."""
    if sum(state.maxmemory_bytes for state in states) <= budget_bytes:
        return {}
    return {
        state.name: f"{state.name} has {limit_words(state)}, and {_why(state)}. It counts with "
        f"{format_size(state.counted_bytes)}, its maximum or what the others' minima leave: the "
        "budget is exceeded, and the others give no more. Give it less"
        for state in states
        if state.takes_more and not state.contested
    }


def _why(state: ServerState) -> str:
    if not state.reachable:
        return "does not answer"
    if not state.evicts:
        return "does not evict"
    return "was given that by hand" if state.held else "refuses another size"


def not_put_back(states: Sequence[ServerState]) -> dict[str, str]:
    """Return a sentence for each server with a size that somebody set by hand, and that cannot be
    put back now."""
    return {
        state.name: f"{state.name} has {limit_words(state)}, which somebody set by hand and which "
        f"cannot be put back while it {'refuses' if state.refuses else 'does not answer'}; the "
        "others keep their sizes"
        for state in states
        if state.contested and not state.moves
    }


def to_put_back(states: Sequence[ServerState]) -> dict[str, int]:
    """Return the planned sizes of servers that have another, which somebody set by hand."""
    return {state.name: state.target_bytes for state in states if state.contested}
