"""Works out what servers that cannot be given another size leave for the others.

Four words. A *target* is the size that is planned for a server. A server *beside* which the others
live cannot be given another size now: somebody holds it by hand, or it hangs. A *need* is the least
size with which a server still takes writes. *Room* is what others give for either, for a while.

For example, A, B and C have targets of 10 MiB each, and all 30 MiB are planned. Somebody sets A to
14 MiB by hand. B and C get targets of 8 MiB. The room made is noted: before 10, 10, 10, made 14, 8,
8, beside A. When A takes part again, all three go back to 10 MiB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.base.rate_limit import RateLimit
from sidecar.config.node import ServerConfig
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.budget_fit import is_about, with_minima_that_fit, within_maxima
from sidecar.servers.sizes.initial_sizes import initial_sizes
from sidecar.servers.sizes.needed_shares import half_share_bytes, whole_needs
from sidecar.servers.sizes.promotions import LastingKeys, follow_roles
from sidecar.servers.sizes.reserved_memory import (
    counted_bytes,
    hanging,
    not_put_back,
    shrunk_bytes,
    takers,
)
from sidecar.servers.sizes.sizes_in_words import tell_needs
from sidecar.servers.sizes.squeezed_servers import SqueezedServers
from sidecar.servers.sizes.unused_sizes import sizes_with_unused_shared
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import DocumentError

log = logging.getLogger(__name__)


# Sizes change so often for clients' memory, then once in so long: each is a line of the history.
_MOST_AT_ONCE, _ONE_MORE_SECONDS = 20, 5.0
# Why sizes change where a replica uses less than it has.
UNUSED = "what replicas do not use"
TellSizes = Callable[[Mapping[str, int], Mapping[str, int], str], None]


class SizesChange(NamedTuple):
    """Says why sizes change, and which room is made by that. ``at_once``: they are set now, and not
    as memory is filled."""

    purpose: str
    room: RoomMade | None
    at_once: bool = False


class BudgetKeeper:
    """Shrinks the others when a server that cannot be shrunk leaves them too little. It does the
    same for one that would refuse writes, because what it cannot evict takes all that it has. What
    they gave they get back when it needs less, or can be shrunk again.

    ``tell``: told of the planned sizes before and after, in bytes, and why.
    """

    def __init__(
        self, actuator: Actuator, store: StateStore, metrics: Metrics, tell: TellSizes
    ) -> None:
        self._actuator = actuator
        self._store = store
        self._metrics = metrics
        self._tell = tell
        self._too_little: str | None = None
        self._exceeded: set[str] = set()
        self._lasting_keys, self._squeezed = LastingKeys(), SqueezedServers()
        self._planned: Mapping[str, int] = {}  # when it began to look
        self._rate, self._is_over = RateLimit(_MOST_AT_ONCE, _ONE_MORE_SECONDS), False

    def keep(self, servers: Sequence[ServerConfig]) -> None:
        """Give the actuator targets that fit, where it came as near as it can and is above M."""
        self._take_note()
        if self._actuator.looks_on or not self._actuator.settled:
            return
        follow_roles(self._store, self._actuator.readings)
        self._plan_what_lasts()
        self._planned = self._store.now.targets_bytes
        states, too_small = self._actuator.latest, self._actuator.too_small
        budget_bytes, least = self._actuator.budget.bytes, self._actuator.latest_least_bytes
        self._tell_exceeded(not_put_back(states) | takers(states, budget_bytes))
        # Nothing here may wait for the actuator: it may be waiting for a server that hangs.
        beside = counted_bytes(servers, states, budget_bytes, least)
        shrunk = within_maxima(servers, shrunk_bytes(states)) | beside
        self._is_over = over = bool(beside) and sum(shrunk.values()) > budget_bytes
        if (targets := {one.name: one.target_bytes for one in states}) != self._actuator.targets():
            return  # others are planned since it looked
        wanted = self._wanted_again(servers, targets, beside, least)
        if not over and not too_small and wanted is None:
            self._too_little = None
            self._share_unused(servers, targets, beside, least)
            return
        # Servers that have not filled, and so have not grown yet, are still to grow.
        sizes = {**(wanted or targets), **beside}
        fitted = self._fitted(servers, sizes, beside)
        if fitted is None:
            return
        sizes = fitted | {name: targets[name] for name in hanging(states)}  # when they answer
        if sizes == targets or (too_small and not over and is_about(sizes, targets)):
            self._share_unused(servers, targets, beside, least)
            return
        made = self._room(servers, targets, sizes, beside, is_less=wanted is not None)
        self._set(targets, sizes, self._change(sizes, wanted, beside, made, too_small))

    def _change(
        self,
        sizes_bytes: Mapping[str, int],
        wanted_bytes: Mapping[str, int] | None,
        beside_bytes: Mapping[str, int],
        made: RoomMade | None,
        too_small: Collection[str],
    ) -> SizesChange:
        """Return why sizes change: somebody is too small, needs room, needs less of it, or none.
        ``wanted_bytes``: the sizes from before room was made; ``None``: none is given back."""
        room, replicas = self._store.now.room, self._replicas
        needed = made.needed_bytes if made is not None and not made.is_returned else {}
        names = ", ".join(sorted(beside_bytes.keys() | needed.keys() or replicas))
        if too_small:
            return SizesChange(tell_needs(too_small, replicas), made)
        if wanted_bytes is None:
            return SizesChange(f"room beside {names}", made)
        others = wanted_bytes.keys() - beside_bytes.keys()
        if any(sizes_bytes[name] < wanted_bytes[name] for name in others):
            purpose = f"less room beside {names}" if names else UNUSED
            return SizesChange(purpose, made, at_once=bool(room) and not needed)
        # A server that grew for a need has filled what it got: it gives as the others fill.
        left = (
            made if needed or sizes_bytes != wanted_bytes else room and room.returned(sizes_bytes)
        )
        purpose = "room that was made is given back" if room else UNUSED
        return SizesChange(
            purpose, left, at_once=bool(room and not room.needed_bytes and not needed)
        )

    def _take_note(self) -> None:
        while self._actuator.fitted:
            self._tell(*self._actuator.fitted.popleft())
        self._lasting_keys.take_readings(self._actuator.readings)
        self._squeezed.take_readings(self._actuator.readings)

    def _plan_what_lasts(self) -> None:
        """Replicas got room for keys that were new: what has lasted since is planned for them."""
        room = self._store.now.room
        kept = room and room.keeping(self._lasting_keys.bytes)
        if kept != room:
            with self._store.update() as state:
                state.room = kept

    def _room(
        self,
        servers: Sequence[ServerConfig],
        targets_bytes: dict[str, int],
        sizes_bytes: dict[str, int],
        beside_bytes: Mapping[str, int],
        *,
        is_less: bool,
    ) -> RoomMade | None:
        """Return what these sizes are of room; ``is_less``: less than was made so far is wanted."""
        room, least = self._store.now.room, self._actuator.latest_least_bytes
        # Also of further room, the sizes from before any was made.
        first = room.before_bytes if room is not None else targets_bytes
        before = self._with_replicas(servers, first)
        needed = room.still_needed(self._known(least)) if room is not None else {}
        needed |= {name: least[name] for name in self._actuator.too_small & least.keys()}
        needed = {name: size for name, size in needed.items() if size > before[name]}
        if beside_bytes or needed:
            return RoomMade(before, sizes_bytes, dict(beside_bytes), needed)
        return room and (room.returned(sizes_bytes) if is_less else room.shifted(sizes_bytes))

    def _with_replicas(
        self, servers: Sequence[ServerConfig], sizes_bytes: dict[str, int]
    ) -> dict[str, int]:
        """Return these sizes, raised where a replica's keys need more. That need is permanent."""
        least, held = self._actuator.latest_least_bytes, self._lasting_keys.bytes
        held = {name: min(size, least.get(name, size)) for name, size in held.items()}
        grows = any(size > sizes_bytes[name] for name, size in held.items())
        return (grows and self._fitted(servers, sizes_bytes, {}, held)) or sizes_bytes

    def _share_unused(
        self,
        servers: Sequence[ServerConfig],
        targets_bytes: Mapping[str, int],
        beside_bytes: Mapping[str, int],
        least_bytes: Mapping[str, int],
    ) -> None:
        """Share unused memory also while others give room: it is no part of that room. Beside a
        server that hangs with more than its target nothing is shared: what the others lack for it
        is still theirs."""
        room, hang = self._store.now.room, hanging(self._actuator.latest)
        shared = room and self._shared(servers, targets_bytes, beside_bytes, least_bytes)
        fitted = shared and self._fitted(servers, {**shared, **beside_bytes}, beside_bytes)
        if room and not hang and fitted and fitted != targets_bytes:
            self._set(targets_bytes, fitted, SizesChange(UNUSED, room.shifted(fitted)))

    @property
    def _replicas(self) -> set[str]:
        return set(self._store.now.replicas)

    def _fitted(
        self,
        servers: Sequence[ServerConfig],
        sizes_bytes: dict[str, int],
        beside_bytes: Mapping[str, int],
        held_bytes: Mapping[str, int] | None = None,
    ) -> dict[str, int] | None:
        """Return these sizes within M, with more for those that are too small. With ``held_bytes``
        it is more for those whose ``held_bytes`` are more, as if nobody else needed anything.
        ``None``, and it is logged: they cannot be."""
        budget_bytes, least = self._actuator.budget.bytes, self._actuator.latest_least_bytes
        grow = self._actuator.too_small & least.keys() - beside_bytes.keys()
        if held_bytes is not None:
            least, grow = dict(held_bytes), set(held_bytes)
        grown = {name: max(least[name], sizes_bytes[name]) for name in grow}
        cut = with_minima_that_fit(servers, budget_bytes)
        try:
            fit = partial(initial_sizes, cut, sizes_bytes | grown, beside_bytes, budget_bytes)
            read, budget = self._actuator.readings, self._actuator.budget
            fitted = fit(least, None if grow else self._kept_first(read))
            if held_bytes is None and any(fitted[name] < size for name, size in least.items()):
                fitted = fit(whole_needs(servers, read, least, budget))
            return fitted
        except DocumentError as error:
            if self._too_little != str(error):
                self._too_little = str(error)
                self._metrics.budgets_exceeded.inc()
                log.warning("the budget is exceeded: %s", error)
            return None

    def _kept_first(self, readings: Mapping[str, ServerReading]) -> dict[str, int]:
        """Return what servers keep while others have memory that they do not use: what they use,
        and half of an equal share, which one that was just restarted is about to."""
        half_bytes = half_share_bytes(len(self._actuator.latest), self._actuator.budget.bytes)
        return {name: max(one.counted_bytes, half_bytes) for name, one in readings.items()}

    def _wanted_again(
        self,
        servers: Sequence[ServerConfig],
        targets_bytes: Mapping[str, int],
        beside_bytes: Mapping[str, int],
        least_bytes: Mapping[str, int],
    ) -> dict[str, int] | None:
        """Return the sizes from before room was made, where less of it is needed; ``None``: nothing
        is to be given back, perhaps because somebody has planned other sizes since."""
        if (room := self._store.now.room) is None:
            return self._shared(servers, targets_bytes, beside_bytes, least_bytes)
        if room.made_bytes != targets_bytes or self._is_returned(room):
            unread = [one.name for one in self._actuator.latest if not one.reachable]
            is_planned = room.made_bytes != targets_bytes
            left = room.after(targets_bytes, unread) if is_planned else None
            with self._store.update() as state:
                if state.room == room and state.targets_bytes == self._planned:
                    state.room = left  # or the actuator has made other room meanwhile
            return None
        is_less = room.is_needed_less(beside_bytes, self._known(least_bytes))
        return room.before_bytes if is_less else None

    def _known(self, least_bytes: Mapping[str, int]) -> dict[str, int]:
        """Return the least sizes that are known. A busy server may be filling its room, and is not
        known; one that is gone needs nothing."""
        names = {state.name for state in self._actuator.latest if state.reachable}
        gone = {state.name: 0 for state in self._actuator.latest if state.gone}
        return gone | {name: size for name, size in least_bytes.items() if name in names}

    def _shared(
        self,
        servers: Sequence[ServerConfig],
        targets_bytes: Mapping[str, int],
        beside_bytes: Mapping[str, int],
        least_bytes: Mapping[str, int],
    ) -> dict[str, int] | None:
        cut = with_minima_that_fit(servers, self._actuator.budget.bytes)
        readings, squeezed = self._actuator.readings, self._squeezed.names
        return sizes_with_unused_shared(
            self._store, cut, readings, targets_bytes, beside_bytes, least_bytes, squeezed
        )

    def _is_returned(self, room: RoomMade) -> bool:
        """Whether all room is given back. Until then a server that no longer evicts may be shrunk,
        for that alone."""
        has = {state.name: state.maxmemory_bytes for state in self._actuator.latest}
        return room.is_returned and all(has[n] <= room.before_bytes[n] for n in room.needed_bytes)

    def _set(
        self,
        before_bytes: Mapping[str, int],
        sizes_bytes: Mapping[str, int],
        change: SizesChange,
    ) -> None:
        if not self._is_over and self._rate.wait_seconds("sizes"):
            return  # clients can bring about any of it, again and again

        def note(state: SidecarState) -> None:
            if state.targets_bytes != self._planned:
                raise ValueError("others are planned since")
            state.make_room(change.room)

        try:
            if change.at_once:
                self._actuator.engage(sizes_bytes, sizes_bytes, change.purpose, note=note)
            else:
                self._actuator.set_targets(sizes_bytes, change.purpose, note=note)
        except ValueError as error:  # or the budget has fallen since it was read
            log.info("%s: tried again: %s", change.purpose, error)
            return
        self._metrics.sizes_fitted.inc()
        self._tell(before_bytes, sizes_bytes, change.purpose)

    def _tell_exceeded(self, words: Mapping[str, str]) -> None:
        for name in words.keys() - self._exceeded:
            self._metrics.budgets_exceeded.inc()
            log.warning("the budget may be exceeded: %s", words[name])
        self._exceeded = set(words)
