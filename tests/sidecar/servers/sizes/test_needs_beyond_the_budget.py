"""Needs that exceed the budget come to rest: nobody takes from another again and again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.budget_keeper import BudgetKeeper
from sidecar.servers.connection.unevictable import is_too_small, least_maxmemory_bytes
from sidecar.servers.sizes.needed_shares import bounded_needs
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.state_store import Note, StateStore
from tests.sidecar.actuated_node import MB
from tests.sidecar.monitored_load import STATS

BUDGET = 168 * MB
SIZES = {"cat": 48, "pages": 32, "ses": 24, "small": 8, "prim": 32, "att": 24}
LOOKS, MOST_CHANGES = 15, 3


class Played:
    """An actuator whose servers have at once what is wanted."""

    def __init__(self, unevictable_bytes: dict[str, int]) -> None:
        self.store = StateStore(None)
        self.configs = [ServerConfig(name, "", minimum_bytes=2 * MB) for name in SIZES]
        self.looks_on, self.settled, self.fitted = False, True, list[Any]()
        self.budget = SimpleNamespace(bytes=BUDGET, ceiling_bytes=BUDGET)
        self.wanted = {name: size * MB for name, size in SIZES.items()}
        self.unevictable_bytes = unevictable_bytes
        self.changes = 0
        self.look()

    def look(self) -> None:
        self.latest = [ServerState(n, size, 0, size) for n, size in self.wanted.items()]
        self.readings = {
            name: replace(
                STATS, maxmemory_bytes=size, unevictable_bytes=self.unevictable_bytes[name]
            )
            for name, size in self.wanted.items()
        }
        least = {
            name: least_maxmemory_bytes(one.maxmemory_bytes, one.unevictable_bytes)
            for name, one in self.readings.items()
        }
        budget: Any = self.budget
        self.latest_least_bytes = bounded_needs(self.configs, least, budget)
        self.too_small = {
            name
            for name, one in self.readings.items()
            if is_too_small(one.maxmemory_bytes, one.unevictable_bytes)
        }

    def targets(self) -> dict[str, int]:
        return self.wanted

    def set_targets(self, sizes: dict[str, int], _why: str, note: Note) -> None:
        with self.store.update() as state:
            note(state)
            state.targets_bytes = self.wanted = dict(sizes)
        self.changes += 1

    def engage(self, sizes: dict[str, int], _targets: dict[str, int], why: str, note: Note) -> None:
        self.set_targets(sizes, why, note)


@given(st.fixed_dictionaries({name: st.integers(1, 120) for name in SIZES}))
def test_sizes_come_to_rest_whatever_cannot_be_evicted(unevictable: dict[str, int]) -> None:
    """Scripts in one server beside another one that was nearly full of them: fifteen settings a
    second, for as long as both held them."""
    played = Played({name: size * MB for name, size in unevictable.items()})
    actuator: Any = played
    keeper = BudgetKeeper(actuator, played.store, Metrics(), lambda *_: None)
    for _ in range(LOOKS):
        keeper.keep(played.configs)
        played.look()
        assert sum(played.wanted.values()) <= BUDGET
    assert played.changes <= MOST_CHANGES
