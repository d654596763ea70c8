"""Works out the sizes when the budget has fallen, and when resident memory gives back what it took
of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.budget_fit import (
    fitted_sizes,
    is_about,
    tell_what_does_not_fit,
    unmovable_bytes,
    with_minima_that_fit,
)
from sidecar.servers.sizes.memory_budget import MemoryBudget
from sidecar.servers.sizes.promotions import held_by_replicas
from sidecar.servers.sizes.shrink_guard import Sizes
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore

# For so long each server keeps half of what it had when resident memory took its first part; then
# of what plans made of that. So they divide what is left for good, and nobody is empty by tonight.
HALVES_SECONDS = 86_400.0
# Only this reason does not pass: a plan's outcome so far cannot be told from what comes of it.
BUDGET_FELL = "the budget fell"
BUDGET_IS_BACK = "resident memory leaves room again"


class FittedSizes(NamedTuple):
    """Has sizes to plan and to have at once, why, and what of them is room for others."""

    targets_bytes: Sizes
    at_once_bytes: Sizes
    why: str
    room: RoomMade | None

    def note(self, state: SidecarState) -> None:
        """Have on file what is room, with the sizes."""
        state.make_room(self.room)


class FallenBudget:
    """Fits one node's sizes to its budget as that falls and comes back.

    What an operator, or the machine, takes and gives is for the next plan to divide. What resident
    memory took, as clients' buffers do in a moment, goes back to those who had it. It does so also
    where another plan or the sidecar's restart came between.
    """

    def __init__(self, store: StateStore, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        # For which budget sizes were fitted last, and who kept his then.
        self._budget_bytes = 0
        self._fixed: set[str] = set()

    def depart(self, targets_bytes: Sizes, whole_bytes: Sizes | None = None) -> None:
        """Note that other sizes are planned, and that who has them is to have what there was.
        ``whole_bytes``: the sizes that were wanted, if the budget cut them."""
        self._depart(
            targets_bytes,
            whole_bytes or targets_bytes,
            sum(self._store.now.before_fall_bytes.values()),
        )

    def follow_plan(self, targets_bytes: Sizes, made_for_bytes: int, budget: MemoryBudget) -> None:
        """Note a plan's sizes. What it leaves of a whole budget stays free. If resident memory had
        lowered the budget when the plan was asked for, what came back since goes to the servers."""
        total = sum(self._store.now.before_fall_bytes.values()) if budget.source == "rss" else 0
        if budget.rss_budget_bytes is not None and made_for_bytes < budget.bytes:
            planned = sum(targets_bytes.values())
            total = max(total, planned * budget.bytes // made_for_bytes)
            self._budget_bytes = made_for_bytes
        self._depart(targets_bytes, targets_bytes, total)

    def _depart(self, targets_bytes: Sizes, whole_bytes: Sizes, total_bytes: int) -> None:
        wanted = max(1, sum(whole_bytes.values()))
        if wanted < total_bytes:
            whole_bytes = {n: size * total_bytes // wanted for n, size in whole_bytes.items()}
        is_cut = sum(whole_bytes.values()) > sum(targets_bytes.values())
        # What a need has made of sizes is no measure of what each had.
        forgets = self._store.now.room is None
        self._remember(whole_bytes if is_cut else {}, forgets=forgets)

    def begin(
        self, servers: Sequence[ServerConfig], goals_bytes: Sizes, budget: MemoryBudget
    ) -> Sequence[ServerConfig]:
        """Return ``sheltered``, with minima that fit, where sizes are begun with, at a start or
        after a pause, and these were planned. They are to have again what resident memory took of
        them meanwhile."""
        if budget.source == "rss" and sum(goals_bytes.values()) > budget.bytes:
            self._remember(self._had(goals_bytes))
            self._budget_bytes = budget.bytes
        return with_minima_that_fit(self.sheltered(servers, budget), budget.bytes)

    def least_bytes(self, servers: Sequence[ServerConfig]) -> int:
        """Return what ``sheltered`` servers have together at least, and resident memory leaves
        them."""
        had = self._had(_own(self._store.now))
        return sum(one.minimum_bytes for one in _with_halves(servers, had))

    def sheltered(
        self, servers: Sequence[ServerConfig], budget: MemoryBudget
    ) -> Sequence[ServerConfig]:
        """Return the same servers, each with at least half of what it had as its minimum, as long
        as resident memory takes of the budget. Any client can make that, and one that hangs beside
        it: neither may empty the others. The operator's own minima come first."""
        if budget.source != "rss":  # asked at each step
            return servers
        state = self._store.now
        had_bytes = state.had_bytes or state.before_fall_bytes  # of a version that knew no other
        return _with_halves(servers, had_bytes, budget.bytes)

    def _had(self, own_bytes: Sizes) -> Sizes:
        """Return the sizes from before the fall, unless other servers were in the node's file
        then."""
        before = self._store.now.before_fall_bytes
        return before if before.keys() == own_bytes.keys() else own_bytes

    def sizes(
        self,
        servers: Sequence[ServerConfig],
        sizes_bytes: Sizes,
        states: Sequence[ServerState],
        budget: MemoryBudget,
        least_bytes: Sizes,
        readings: Mapping[str, ServerReading],
    ) -> FittedSizes | None:
        """Return those to go to where the budget has changed; ``None``: they stay."""
        state, fixed = self._store.now, unmovable_bytes(states)
        own, planned, before = _own(state), state.targets_bytes, state.before_fall_bytes
        if before.keys() != planned.keys():  # of before other servers were in the node's file
            before = {}
        # It may have fallen further, and nobody has so much.
        self._budget_bytes = min(self._budget_bytes, budget.bytes)
        falls = max(sum(planned.values()), sum(sizes_bytes.values())) > budget.bytes
        if falls:
            if tell_what_does_not_fit(servers, budget.bytes):
                self._metrics.minima_cut.inc()
            self._budget_bytes, self._fixed = budget.bytes, set()
            self._remember((before or own) if budget.source == "rss" else {})
            wanted: Sizes = own
        elif before and (budget.bytes > self._budget_bytes or self._fixed - fixed.keys()):
            self._budget_bytes, self._fixed = budget.bytes, set(fixed)
            wanted = _on_the_way_back(own, before, budget.bytes)
            is_whole = budget.source != "rss" or (wanted and is_about(wanted, before))
            if is_whole and not any(size < before.get(n, 0) for n, size in fixed.items()):
                self._remember({}, forgets=False)  # it may be taken again a moment later
            if not wanted:
                return None
        else:
            return None
        fit = partial(fitted_sizes, self.sheltered(servers, budget), budget_bytes=budget.bytes)
        targets = fit(wanted, fixed, least_bytes=least_bytes)
        is_left = bool(self._store.now.before_fall_bytes)  # of which the last part may be small
        if not falls and (targets == planned or (is_left and is_about(targets, planned))):
            return None
        # A server's urgent need, or its size while it hangs, is not planned for it.
        hang = {one.name for one in states if not one.reachable}
        lasts = {name: size for name, size in fixed.items() if name not in hang}
        without = fit(wanted, lasts, least_bytes=held_by_replicas(readings))
        room = RoomMade.for_needs(without, targets, least_bytes, fixed.keys() & hang)
        if not falls:
            return FittedSizes(targets, sizes_bytes, BUDGET_IS_BACK, room)
        now = sizes_bytes if own is planned else own
        return FittedSizes(targets, fit(now, fixed, least_bytes=least_bytes), BUDGET_FELL, room)

    def _remember(self, sizes_bytes: Sizes, *, forgets: bool = True) -> None:
        """Note the sizes before the fall; without any, unless it ``forgets``, what each had stays
        for its day."""
        before, now = self._store.now, time.time()
        had, since = dict(before.had_bytes), before.had_at_seconds
        is_old = not since <= now < since + HALVES_SECONDS
        if is_old or (had.keys() != sizes_bytes.keys() and (sizes_bytes or forgets)):
            had, since = dict(sizes_bytes), now
        if (before.before_fall_bytes, before.had_bytes) != (sizes_bytes, had):
            with self._store.update() as state:
                state.before_fall_bytes = dict(sizes_bytes)
                state.had_bytes, state.had_at_seconds = had, since


def _own(state: SidecarState) -> Sizes:
    """Return what is planned, without what somebody needs at once: otherwise that would be taken
    from the others once more, in proportion to what is left."""
    is_room = state.room is not None and state.room.made_bytes == state.targets_bytes
    return state.room.before_bytes if state.room and is_room else state.targets_bytes


def _with_halves(
    servers: Sequence[ServerConfig], had_bytes: Sizes, most_bytes: int | None = None
) -> Sequence[ServerConfig]:
    """Return half of what each had as its minimum where that is more than the operator's, and no
    more than his ``maximum``. It is less in proportion where all together are to have
    ``most_bytes``."""
    half = {name: size // 2 for name, size in had_bytes.items()}
    more = {
        one.name: max(0, min(least, one.maximum_bytes or least) - one.minimum_bytes)
        for one in servers
        if (least := half.get(one.name, 0))
    }
    wanted = spare = max(1, sum(more.values()))
    if most_bytes is not None:
        spare = min(wanted, max(0, most_bytes - sum(one.minimum_bytes for one in servers)))
    return [
        replace(one, minimum_bytes=one.minimum_bytes + more.get(one.name, 0) * spare // wanted)
        for one in servers
    ]


def _on_the_way_back(sizes_bytes: Sizes, before_bytes: Sizes, budget_bytes: int) -> Sizes:
    """Return these sizes, and of what there is beside them to each a part of what it has lost;
    empty where nobody has lost anything, or nothing is there."""
    lost = {n: max(0, before_bytes.get(n, 0) - size) for n, size in sizes_bytes.items()}
    all_lost, spare = sum(lost.values()), budget_bytes - sum(sizes_bytes.values())
    if spare <= 0 or not all_lost:
        return {}
    spare = min(spare, all_lost)
    return {n: size + lost[n] * spare // all_lost for n, size in sizes_bytes.items()}
