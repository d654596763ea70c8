"""Tells what an operator should look into, by the rest of the status document."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from sidecar.controllers.planner_outage import PlannerOutage
from sidecar.observing.observer import SILENT_SECONDS
from sidecar.observing.team_wishes import BELIEVED_RATIO
from sidecar.servers.connection.outage_words import outage_words
from sidecar.servers.sizes.transitions import is_clearly_above
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, time_words
from solver_lambda.planning.size_ranges import listed

# Codes of servers whose size stays, whatever the sum is.
_STAYS = ("no_eviction:", "refuses:", "held:", "taken:")
# Of two, one is often idle.
_NOT_EVICTED = (
    "cannot evict (replies that clients do not read, scripts, a module), so the others gave it "
    "room, and get it back when it needs less: see omem in 'CLIENT LIST'; maxmemory-clients or a "
    "maximum bounds it"
)
_WITHOUT_TTL = (
    "cannot evict (keys without a TTL, or replies that clients do not read), so the others gave it "
    "room, and get it back when it needs less: 'INFO keyspace' counts keys that expire, and a "
    "maximum bounds it"
)
_TAKES_WORK = "clients take work from it"
_AS_REPLICA = (
    "holds as a replica, new keys or buffers of clients, so the others gave it room, and get back "
    "what buffers took: see omem in 'CLIENT LIST'"
)
_AS_QUEUE = (
    "holds, and nothing of that is evicted, as clients take work from it: if it is a cache, "
    "'cache = true' in the file gives the others back what it took from them"
)
NOT_ASKED = "it was not asked yet"
# A sync of a replica takes this part of a server's maxmemory beside it for a moment.
_MUCH_BESIDE = 1 / 4
_FEWEST_TO_OUTWEIGH, _OUTWEIGHING_SHARE = 3, 0.99
_IN_VAIN = (
    "; less maxmemory brought nothing back, so it was given back: an allocator without "
    "defragmentation, or the program itself, keeps those pages, and a restart frees them"
)


def problems_of(
    servers: Sequence[Mapping[str, Any]],
    budget: Mapping[str, Any],
    state: SidecarState,
    mode: str,
    silence: PlannerOutage | None,
    counted_bytes: Mapping[str, int],
    silent_seconds: Callable[[str], float],
    takers: Collection[str] = (),
) -> list[str]:
    """Say in a sentence each what is wrong, with its remedy where there is one. ``mode``: that is
    in force; ``counted_bytes``: what each server counts with in the budget, as far as that is
    known; ``silent_seconds``: for how long each has sent no samples; ``takers``: who exceeds it."""
    command = _command_to_set(state, mode)
    found = [
        _unread(one, counted_bytes.get(one["name"]))
        for one in servers
        if not one["up"] and one["error"] != NOT_ASKED
    ]
    if silence is not None:
        found.append(silence.words())
    found += [
        f"{one['name']} has no maxmemory: {_who_gives_it_one(one, command)}"
        for one in servers
        if one["up"] and not one["maxmemory_bytes"]
    ]
    if budget["maxmemory_bytes"] > budget["bytes"]:
        then = _what_becomes_of_it(servers, command, takers)
        found.append(
            f"maxmemory of all servers is {format_size(budget['maxmemory_bytes'])}, more than the "
            f"budget of {format_size(budget['bytes'])}: {then}"
        )
    elif is_clearly_above(budget["used_bytes"], budget["bytes"]):
        found.append(_used_too_much(servers, budget))
    if budget["rss_budget_bytes"] and budget["rss_bytes"] > budget["rss_budget_bytes"]:
        found.append(
            f"resident memory of all servers is {format_size(budget['rss_bytes'])}, more than "
            f"memory.rss_budget, {format_size(budget['rss_budget_bytes'])}{_most_beside(servers)}"
            f"{_IN_VAIN if budget['rss_budget_is_vain'] else ''}"
        )
    found += _outweighing(servers)
    for one in servers:
        found += _of_samples_and_memory(one, silent_seconds(one["name"]))
    found += [
        _by_hand(name, hold.bytes, next((one for one in servers if one["name"] == name), None))
        + _given_for(name, hold.bytes, state)
        for name, hold in state.control.held.items()
    ]
    return [*found, *_needs(servers, state)]


def _by_hand(name: str, size_bytes: int, server: Mapping[str, Any] | None) -> str:
    has = server and server["maxmemory_bytes"]
    given = f"{name} was given {format_size(size_bytes)} by hand"
    if has and has != size_bytes:
        return f"{given}, and has {format_size(has)} since: 'spreds resume' forgets that"
    return f"{given} and keeps it until 'spreds resume'"


def _given_for(name: str, size_bytes: int, state: SidecarState) -> str:
    """Say what the others gave beside a server; empty where it is nothing, or on its way back."""
    room = state.room
    if room is None or name not in room.beside_bytes:
        return ""
    if size_bytes <= room.before_bytes.get(name, size_bytes):
        return ""
    gave = {n: size - room.made_bytes.get(n, size) for n, size in room.before_bytes.items()}
    givers = sorted(
        (n for n, size in gave.items() if size > 0 and n != name), key=lambda n: -gave[n]
    )
    total = sum(gave[n] for n in givers)
    return f"; {listed(givers)} gave {format_size(total)} for it" if givers else ""


def _most_beside(servers: Sequence[Mapping[str, Any]]) -> str:
    """Name the server whose pages hold most that is not in use."""
    up = [one for one in servers if one["up"]]
    most = max(up, key=lambda one: one["rss_bytes"] - one["used_bytes"], default=None)
    if most is None:
        return ""
    has, uses = format_size(most["rss_bytes"]), format_size(most["used_bytes"])
    return f"; {most['name']} has {has} of it, and uses {uses}"


def _used_too_much(servers: Sequence[Mapping[str, Any]], budget: Mapping[str, Any]) -> str:
    above = [
        one["name"]
        for one in servers
        if one["maxmemory_bytes"]
        and is_clearly_above(one.get("used_bytes") or 0, one["maxmemory_bytes"])
    ]
    words = (
        f"the servers use {format_size(budget['used_bytes'])}, more than the budget of "
        f"{format_size(budget['bytes'])}"
    )
    if not above:
        return words
    holds = "holds more than its" if len(above) == 1 else "hold more than their"
    return f"{words}: {', '.join(above)} {holds} maxmemory, and writes there may be refused"


def _needs(servers: Sequence[Mapping[str, Any]], state: SidecarState) -> Iterator[str]:
    """Say for whom others made room, and have not got it back."""
    if state.room is None or state.room.is_returned:
        return
    volatile = [o["name"] for o in servers if (o["policy"] or "").startswith("volatile-")]
    words = dict.fromkeys(volatile, _WITHOUT_TTL)
    words |= dict.fromkeys(state.replicas, _AS_REPLICA)
    words |= {o["name"]: _AS_QUEUE for o in servers if _TAKES_WORK in (o["keep_reason"] or "")}
    up = {one["name"] for one in servers if one["up"]}
    for name, size in state.room.needed_bytes.items():
        what = words.get(name, _NOT_EVICTED)
        needs = f"{name} needs" if name in up else f"{name}, which does not answer, needed"
        yield f"{needs} {format_size(size)} for what it {what}"


def _outweighing(servers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say who makes nearly all reads, by its own word."""
    # The last figures of a server that is down do not count beside what the others say now.
    rates = {one["name"]: one.get("reads_per_second") or 0.0 for one in servers if one["up"]}
    if len(rates) < _FEWEST_TO_OUTWEIGH:
        return []
    return [
        f"{name} makes more than {_OUTWEIGHING_SHARE:.0%} of all reads, by its own word, and "
        "outweighs the others in plans; a weight below 1 makes it count less"
        for name, rate in rates.items()
        if rate > _OUTWEIGHING_SHARE * sum(rates.values())
    ]


def _who_gives_it_one(server: Mapping[str, Any], command: str | None) -> str:
    if (server["keep_reason"] or "").startswith("no_eviction:"):
        return "as it does not evict, nobody but you gives it one, and it can fill the machine"
    return f"{command or 'the sidecar'} gives it one"


def _of_samples_and_memory(server: Mapping[str, Any], silent_seconds: float) -> Iterator[str]:
    name, sampler = server["name"], server["sampler"]
    if server["up"] and sampler is None:
        yield (
            f"{name} is not sampled, for {server['not_sampled']}: plans leave its size alone; it "
            "shrinks only where all must"
        )
    if server["up"] and sampler and silent_seconds > SILENT_SECONDS:
        why = "does it reach sampling.endpoint ('spreds check --connect' looks)?"
        if sampler == "look":
            why = "it does not answer what is asked of its keys, or not in time"
        yield f"{name} has sent no samples for {silent_seconds:.0f} s, so it keeps its size: {why}"
    if server.get("unyielding_bytes"):
        yield (
            f"{name} holds some {format_size(server['unyielding_bytes'])} that no eviction frees "
            "and INFO does not name (a module, tracked keys, a few large values): plans leave it "
            "that"
        )
    beside = server.get("not_counted_bytes") or 0
    if beside > _MUCH_BESIDE * (server["maxmemory_bytes"] or math.inf):
        yield (
            f"{name} uses {format_size(beside)} beside its maxmemory, for buffers of replicas and "
            "of its file, which no eviction frees: client-output-buffer-limit replica bounds them"
        )
    stated, counts = server.get("stated_latency_seconds"), server.get("backend_latency_seconds")
    if stated is not None and counts and counts != stated:
        only, times = ("only", "{} times") if counts < stated else ("still", "1/{} of")
        yield (
            f"the team of {name} states a backend latency of {time_words(stated)}, and {only} "
            f"{time_words(counts)} count, {times.format(BELIEVED_RATIO)} what is known of it: if "
            "it is true, say so by backend_latency in the node's file"
        )
    size, used = server["maxmemory_bytes"], server.get("used_bytes") or 0
    if server.get("role") == "slave" and size and is_clearly_above(used, size):
        yield (
            f"{name} is a replica and holds {format_size(used)}, more than its maxmemory of "
            f"{format_size(size)}, which it need not keep to: the memory of all can be above the "
            "budget by that; maxmemory-clients bounds what its clients hold"
        )
    elif (server["keep_reason"] or "").startswith("stuck:"):
        why = reason_words(server["keep_reason"])
        yield f"{name}: {why}; others that would grow by that memory wait"


def _unread(server: Mapping[str, Any], counted_bytes: int | None) -> str:
    words = f"{server['name']} {outage_words(server['error'])}"
    if counted_bytes is None:
        return words
    return f"{words}; it counts with {format_size(counted_bytes)} in the budget, whatever it has"


def _command_to_set(state: SidecarState, mode: str) -> str | None:
    """Return the command after which sizes are set, ``None`` if they are already, as far as they
    can be."""
    if state.control.pause:
        return "'spreds resume'"  # nothing is set in a pause, whoever orders it
    return None if state.control.engaged or mode == "apply" else "'spreds apply --from-now-on'"


def _what_becomes_of_it(
    servers: Sequence[Mapping[str, Any]], command: str | None, takers: Collection[str]
) -> str:
    """Say what becomes of a sum of sizes above the budget. ``command``: after which sizes are
    set."""
    if command:
        return f"{command} brings it below, or raise memory.budget"
    if takers:
        keep = "keeps its size" if len(takers) == 1 else "keep their sizes"
        return f"it stays above, for {', '.join(takers)} {keep}, which is more than counts"
    fixed = [
        one["name"]
        for one in servers
        if not one["up"] or (one["keep_reason"] or "").startswith(_STAYS)
    ]
    shrinking = [
        one["name"]
        for one in servers
        if one["name"] not in fixed and one["maxmemory_bytes"] > (one["target_bytes"] or math.inf)
    ]
    if shrinking:
        have = "has" if len(shrinking) == 1 else "have"
        return f"the sidecar is bringing it below: {', '.join(shrinking)} {have} still to shrink"
    why = "none may be smaller"
    if fixed:
        keep = "keeps its size" if len(fixed) == 1 else "keep their sizes"
        why = f"{', '.join(fixed)} {keep}"
    return f"it stays above, for {why}: raise memory.budget"
