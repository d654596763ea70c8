"""The sizes when the budget has fallen, and when resident memory gives back what it took of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.budget_fit import fitted_sizes, fitted_to_budget, is_about
from sidecar.servers.memory_budget import MemoryBudget
from sidecar.servers.promotions import held_by_replicas
from sidecar.servers.server_reading import ServerReading
from sidecar.servers.shrink_guard import Sizes
from sidecar.state.room_made import RoomMade
from sidecar.state.state_store import StateStore

# The one reason that does not pass: what came of a plan cannot be told from what comes of it.
BUDGET_FELL = "the budget fell"
BUDGET_IS_BACK = "resident memory leaves room again"


class FallenBudget:
    """Of one node, over time.

    What an operator, or the machine, takes and gives is for the next plan to divide. What resident
    memory took, as clients' buffers do in a moment, goes back to those who had it, also where
    another plan or the sidecar's restart came between.
    """

    def __init__(self, store: StateStore, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        # For which budget sizes were fitted last, and who kept his then.
        self._budget_bytes = 0
        self._fixed: set[str] = set()

    def depart(self, targets_bytes: Sizes, whole_bytes: Sizes | None = None) -> None:
        """Other sizes are planned; ``whole_bytes``: those that were wanted, if the budget cut
        them."""
        before = self._store.now.before_fall_bytes
        if whole_bytes is None:
            whole_bytes = _on_the_way_back(targets_bytes, before, sum(before.values()))
        is_cut = sum(whole_bytes.values()) > sum(targets_bytes.values())
        self._remember(whole_bytes if is_cut else {})

    def sizes(
        self,
        servers: Sequence[ServerConfig],
        sizes_bytes: Sizes,
        fixed_bytes: Sizes,
        budget: MemoryBudget,
        least_bytes: Sizes,
        readings: Mapping[str, ServerReading],
    ) -> tuple[Sizes, Sizes, str] | None:
        """The sizes to plan, those to have at once, and why; ``None``: they stay."""
        state = self._store.now
        planned, before = state.targets_bytes, state.before_fall_bytes
        if before.keys() != planned.keys():  # of before other servers were in the node's file
            before = {}
        wanted, own = (planned, sizes_bytes), state.without_needs
        fitted = fitted_to_budget(
            servers, wanted, own, fixed_bytes, budget.bytes, least_bytes, self._metrics
        )
        if fitted is not None:
            self._budget_bytes, self._fixed = budget.bytes, set()
            is_by_memory = budget.source == "rss"
            self._remember((before or own or planned) if is_by_memory else {})
            return *fitted, BUDGET_FELL
        comes_back = budget.bytes > self._budget_bytes or self._fixed - fixed_bytes.keys()
        if not before or not comes_back:
            return None
        self._budget_bytes, self._fixed = budget.bytes, set(fixed_bytes)
        back = _on_the_way_back(own or planned, before, budget.bytes)
        is_whole = budget.source != "rss" or (back and is_about(back, before))
        if is_whole and not any(size < before.get(n, 0) for n, size in fixed_bytes.items()):
            self._remember({})
        if not back:
            return None
        # It goes to those who lost it; what somebody needs at once is not planned for him.
        fitted_beside = partial(fitted_sizes, servers, back, fixed_bytes, budget.bytes)
        again = fitted_beside(least_bytes)
        room = RoomMade.for_needs(fitted_beside(held_by_replicas(readings)), again, least_bytes)
        if is_about(again, planned):
            return None
        if room is not None:
            with self._store.update() as state:
                state.make_room(room)
        return again, sizes_bytes, BUDGET_IS_BACK

    def _remember(self, sizes_bytes: Sizes) -> None:
        if self._store.now.before_fall_bytes != sizes_bytes:
            with self._store.update() as state:
                state.before_fall_bytes = dict(sizes_bytes)


def _on_the_way_back(sizes_bytes: Sizes, before_bytes: Sizes, budget_bytes: int) -> Sizes:
    """These sizes, and of what there is beside them to each a part of what it has lost; empty where
    nobody has lost anything, or nothing is there."""
    lost = {n: max(0, before_bytes.get(n, 0) - size) for n, size in sizes_bytes.items()}
    all_lost, spare = sum(lost.values()), budget_bytes - sum(sizes_bytes.values())
    if spare <= 0 or not all_lost:
        return {}
    spare = min(spare, all_lost)
    return {n: size + lost[n] * spare // all_lost for n, size in sizes_bytes.items()}
