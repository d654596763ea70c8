"""Leads from servers that are only watched to servers whose sizes are kept, and back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.control.first_sizes_check import check_first_sizes, unread_sizes
from sidecar.control.stopped_sizes import stopped_sizes
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.budget_fit import bounded_claims, fitted_sizes, unmovable_bytes
from sidecar.servers.sizes.initial_sizes import sizes_to_begin_with
from sidecar.servers.sizes.needed_shares import too_large
from sidecar.servers.sizes.promotions import follow_roles, held_by_replicas
from sidecar.servers.sizes.shrink_floor import can_shrink
from sidecar.servers.sizes.shrink_guard import Asked
from sidecar.servers.sizes.sizes_in_words import beside_words, found_in_words, found_size
from sidecar.servers.unseen_restarts import planned_for_restarted
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


# Why sizes may change where they are set from now on; whether they were before.
_WHY = {False: "SPREDS began to keep sizes", True: "sizes are set again"}


class Enforcement:
    """Begins to keep the sizes of one node's servers, and stops.

    Attributes:
        changed: told of each size that goes back: the server, from, to (bytes), and why.
    """

    def __init__(self, config: SidecarConfig, store: StateStore, actuator: Actuator) -> None:
        self.changed: Callable[[str, int, int, str], None] = lambda *_: None
        self.config = config
        self._store = store
        self._actuator = actuator

    @property
    def budget_bytes(self) -> int:
        """Return what sizes sum to at most, as it is now."""
        return self._actuator.budget.bytes

    def found(self, readings: Mapping[str, ServerReading | None]) -> None:
        """Take what servers have for what is wanted, while nobody has planned anything."""
        seen = {name: reading for name, reading in readings.items() if reading}
        with self._store.update() as state:
            servers, budget_bytes = self.config.servers, self._actuator.budget.bytes
            shares = {server.name: budget_bytes // len(servers) for server in servers}
            wanted = {name: reading.size_bytes for name, reading in seen.items()}
            if state.control.engaged:
                wanted |= {n: size for n, size in state.targets_bytes.items() if n in shares}
            state.targets_bytes = shares | unread_sizes(servers, wanted, budget_bytes) | wanted

    def begin(self) -> str:
        """Enforce sizes from now on: the present ones within the budget, or those to which the
        servers were on the way. Return which of them changed, for people.

        Raises:
            DocumentError: as ``initial_sizes``.
        """
        before = self.sizes_in_force()
        sizes = self._engage(None, "initial sizes")
        changed = {name: size for name, size in sizes.items() if size != before.get(name, size)}
        ways = (f"{n} {found_size(before[n])} -> {format_size(s)}" for n, s in changed.items())
        return f"; {', '.join(ways)}" if changed else ""

    def move(self, sizes_bytes: Mapping[str, int], purpose: str, asked: Asked) -> None:
        """Go to these sizes, from now on if they were only watched so far. ``asked``: what they
        answer.

        Raises:
            ValueError: they exceed the budget; nothing changes.
            PlanRefusedError: as ``ShrinkGuard.judge``.
            DocumentError: as ``initial_sizes``.
        """
        if self._store.now.control.engaged and not self._actuator.looks_on:
            self._actuator.set_targets(sizes_bytes, purpose, asked)
        else:
            self._engage(sizes_bytes, purpose, asked)

    def back_to(
        self,
        sizes_bytes: Mapping[str, int],
        purpose: str,
        at_once_bytes: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """Have these sizes, or as near to them as budget and bounds allow; which they are.
        ``at_once_bytes``: what each is to have now, on its way to them; by default the same. Raises
        DocumentError, as ``initial_sizes``, and ValueError: nothing may be set now."""
        if not self._store.now.control.sets_sizes:
            raise ValueError("nothing is set now")
        had, readings = self._store.now.targets_bytes, self._actuator.readings
        fixed = unmovable_bytes(self._actuator.states())
        servers, budget = self._actuator.sheltered(), self.budget_bytes
        whole = {**had, **sizes_bytes}
        fitted = partial(fitted_sizes, servers, whole, fixed, budget)
        sizes = fitted(least := self._actuator.least_bytes())
        room = RoomMade.for_needs(fitted(held_by_replicas(readings)), sizes, least)
        before = had if at_once_bytes else self.sizes_in_force()
        at_once = sizes
        if at_once_bytes:
            at_once = fitted_sizes(servers, {**sizes, **at_once_bytes}, fixed, budget, least)

        def note(state: SidecarState) -> None:
            state.make_room(room or state.room)
            state.overtake()

        self._actuator.engage(at_once, sizes, purpose, note=note)
        self._actuator.fallen.depart(sizes, whole)
        self._tell_changes(before, sizes, purpose)
        return sizes

    @property
    def sizes_now(self) -> dict[str, int]:
        """Return what servers are to have now, on their way to what is wanted."""
        return {**self._store.now.targets_bytes, **self._actuator.intermediate_sizes.sizes_bytes}

    def sizes_in_force(self) -> dict[str, int]:
        """Return ``maxmemory`` as last read (0: no limit), or what is wanted if nobody answers."""
        limits = {
            name: reading.maxmemory_bytes for name, reading in self._actuator.readings.items()
        }
        return {**self._store.now.targets_bytes, **limits}

    def sizes_to_come_back_to(self) -> dict[str, int]:
        """Return what each server is to have now (0: no limit), also while memory is being handed
        over: nobody planned what it has in the middle of that. It is what it has where nothing is
        ours to keep, or somebody set a size by hand."""
        in_force, state = self.sizes_in_force(), self._store.now
        if not state.control.engaged:
            return in_force
        # A size that was needed only for that moment is none to come back to.
        planned = state.targets_bytes | state.without_needs
        return {
            name: planned.get(name, size) if size and name not in state.control.held else size
            for name, size in in_force.items()
        }

    def stop(self) -> dict[str, int] | None:
        """Let the servers that are given other sizes have what they have, in a pause from its end
        on; all sizes then, ``None`` where nothing was under way.

        Raises:
            DocumentError: as ``initial_sizes``.
        """
        state = self._store.now
        under_way = stopped_sizes(state, self.sizes_in_force(), self._actuator, self.contested())
        if not state.control.engaged or not under_way:
            return None
        if state.control.sets_sizes:
            return self.back_to(under_way, "stopped")
        with self._store.update() as state:
            state.targets_bytes = {**state.targets_bytes, **under_way}
            state.overtake()
            return state.targets_bytes

    def contested(self) -> set[str]:
        """Return servers that have sizes which somebody set by hand, and that are to be put
        back."""
        return {one.name for one in self._actuator.latest if one.contested}

    def objection_to(self, plan: AdaptationPlan, made_with: tuple[ServerConfig, ...]) -> str | None:
        """Say why its sizes cannot be had now, though they could when it was made, with these
        servers' bounds: one that had to cut them may."""
        planned = {server.name: server.maxmemory_bytes for server in plan.servers}
        for server, then in zip(self.config.servers, made_with, strict=True):
            size_bytes = planned.get(server.name)
            if size_bytes is None or server == then:
                continue
            if size_bytes < server.minimum_bytes:
                least = format_size(server.minimum_bytes)
                return f"{server.name} would get less than its minimum, {least}"
            if server.maximum_bytes is not None and size_bytes > server.maximum_bytes:
                most = format_size(server.maximum_bytes)
                return f"{server.name} would get more than its maximum, {most}"
        for state in self._actuator.states():
            moves_to = planned.get(state.name, state.maxmemory_bytes)
            if state.contested or not state.reachable:
                continue  # it is brought there when it can be
            if not state.moves and moves_to not in (state.maxmemory_bytes, state.counted_bytes):
                return f"{state.name} cannot be given another size now"
        return None

    def has_limit(self, name: str) -> bool:
        """Whether the server has a ``maxmemory``, as far as it is known."""
        reading = self._actuator.readings.get(name)
        return reading is None or bool(reading.maxmemory_bytes)

    def _engage(
        self, targets_bytes: Mapping[str, int] | None, purpose: str, asked: Asked = None
    ) -> dict[str, int]:
        """Begin to keep sizes; return those to begin with."""
        readings, state = self._seen()
        if not (was_engaged := state.control.engaged):
            check_first_sizes(self._actuator, readings, is_saved=self._store.is_saved)
        found = {name: one.maxmemory_bytes for name, one in readings.items()}
        least = self._actuator.least_bytes()
        before_room = self._before_room(least)
        goals = before_room or state.targets_bytes
        fixed = {
            name
            for name, reading in readings.items()
            if not can_shrink(reading, name, state.own_bytes, max(goals.get(name, 0), found[name]))
            or state.control.holds(name, reading.maxmemory_bytes)
        }
        fallen, budget = self._actuator.fallen, self._actuator.budget
        servers = fallen.begin(self.config.servers, goals if was_engaged else {}, budget)
        share = (budget_bytes := budget.bytes) // len(servers)
        planned = state.targets_bytes if was_engaged else unread_sizes(servers, found, budget_bytes)
        # One that does not evict and has no limit counts with a share, or more, and gets none.
        limits = {one: found[one] or max(share, goals.get(one, 0)) for one in fixed}
        counted = found | bounded_claims(servers, limits, budget_bytes)
        slips = too_large(found, planned, fixed, budget_bytes)
        slips |= {name: planned[name] for name in self.contested() & planned.keys()}
        self._actuator.contest({name: found[name] for name in slips})
        begun = partial(
            sizes_to_begin_with,
            servers,
            counted | slips | planned_for_restarted(state, readings, fixed),
            before_room or planned,
            fixed,
            budget_bytes,
            used_bytes={name: one.counted_bytes for name, one in readings.items()},
            interrupted=state.control.engaged and (bool(before_room) or not state.settled),
        )
        sizes, targets = begun(least)
        again = state.room and state.room.begun_again(state.targets_bytes, targets)
        room = again or RoomMade.for_needs(begun(held_by_replicas(readings))[1], targets, least)
        log.info("%s: found %s", purpose, found_in_words(self.config.servers, found, sizes))
        room = room.returned(before_room) if room and before_room else room
        targets = {**targets, **(targets_bytes or {})}  # the sizes to begin with may be the same
        self._actuator.engage(sizes, targets, purpose, asked, lambda now: now.engage(room))
        if not was_engaged:
            fallen.depart(targets, targets | {n: s for n, s in found.items() if s})
        beside = beside_words(found, planned, fixed)
        self._tell_changes({**sizes, **counted}, sizes, f"{_WHY[was_engaged]}{beside}")
        return sizes

    def _seen(self) -> tuple[Mapping[str, ServerReading], SidecarState]:
        """Return what servers say, and what is known, also of their roles and of the budget."""
        self._actuator.look_at_budget()
        follow_roles(self._store, self._actuator.readings)
        return self._actuator.readings, self._store.now

    def _before_room(self, least_bytes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes before others made room for needs that were over when nobody looked."""
        state = self._store.now
        if state.room is None or state.room.still_needed(least_bytes):
            return {}
        return state.without_needs

    def give_back(self) -> tuple[dict[str, int], dict[str, str]]:
        """Give back the sizes from before SPREDS, whatever the budget is, and set nothing more: at
        once, or to servers that do not answer when they do.

        Returns:
            The sizes, 0 for no limit; and why, of those that do not have theirs.
        """
        names = {server.name for server in self.config.servers}
        installed = self._store.now.control.installed_bytes
        sizes = {name: size for name, size in installed.items() if name in names}
        kept = dict.fromkeys(names - sizes.keys(), "what it had is not known")
        kept |= {
            name: f"it does not evict ({reading.why_no_eviction}), and keeps its size"
            for name, reading in self._actuator.readings.items()
            if not reading.evicts and 0 < sizes.get(name, 0) < reading.size_bytes
        }
        sizes = {name: size for name, size in sizes.items() if name not in kept}
        before = self.sizes_in_force()
        with self._store.update() as state:
            state.overtake()
            # Of a plan that nobody is to have.
            state.room, state.before_fall_bytes, state.had_bytes = None, {}, {}
            state.control = replace(
                state.control,
                engaged=False,
                held={},
                wait=None,
                server_waits={},
                before_plan_bytes={},
                restoring_bytes=sizes,
            )
        missing = self._actuator.restore()
        self._tell_changes(before, sizes, "given back as it was before SPREDS")
        return sizes, kept | missing

    def _tell_changes(
        self, before_bytes: Mapping[str, int], after_bytes: Mapping[str, int], why: str
    ) -> None:
        for name, size_bytes in after_bytes.items():
            if before_bytes.get(name) != size_bytes:
                self.changed(name, before_bytes.get(name, 0), size_bytes, why)
