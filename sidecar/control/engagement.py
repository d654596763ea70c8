"""From servers that are only watched to servers whose sizes are kept, and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from sidecar.config.node import SidecarConfig
from sidecar.servers.actuator import Actuator
from sidecar.servers.budget_fit import fitted_sizes, unmovable_bytes, with_minima_that_fit
from sidecar.servers.initial_sizes import sizes_to_begin_with
from sidecar.servers.server_reading import ServerReading
from sidecar.state.state_store import StateStore
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


class Engagement:
    """Of one node's servers."""

    def __init__(self, config: SidecarConfig, store: StateStore, actuator: Actuator) -> None:
        self.config = config
        self._store = store
        self._actuator = actuator

    def found(self, readings: Mapping[str, ServerReading | None]) -> None:
        """While nobody has planned anything, take what servers have for what is wanted."""
        seen = {name: reading for name, reading in readings.items() if reading}
        with self._store.update() as state:
            share_bytes = self._actuator.budget.bytes // len(self.config.servers)
            wanted = {server.name: share_bytes for server in self.config.servers}
            wanted |= {name: reading.size_bytes for name, reading in seen.items()}
            if state.control.engaged:
                wanted |= {n: size for n, size in state.targets_bytes.items() if n in wanted}
            state.targets_bytes = wanted

    def begin(self) -> None:
        """Keep sizes from now on: those that there are, within the budget, or those to which the
        servers were on the way.

        Raises:
            DocumentError: as ``initial_sizes``.
        """
        self._engage(None, "initial sizes")

    def move(self, sizes_bytes: Mapping[str, int], purpose: str) -> None:
        """Go to these sizes, from now on if they were only watched so far.

        Raises:
            ValueError: they exceed the budget; nothing changes.
            DocumentError: as ``initial_sizes``.
        """
        if self._store.now.control.engaged:
            self._actuator.set_targets(sizes_bytes, purpose)
        else:
            self._engage(sizes_bytes, purpose)

    def back_to(self, sizes_bytes: Mapping[str, int], purpose: str) -> None:
        """Have these sizes at once, or as near to them as budget and bounds allow.

        Raises:
            DocumentError: as ``initial_sizes``.
        """
        sizes = fitted_sizes(
            self.config.servers,
            {**self._store.now.targets_bytes, **sizes_bytes},
            unmovable_bytes(self._actuator.states()),
            self._actuator.budget.bytes,
            self._actuator.least_bytes(),
        )
        self._actuator.engage(sizes, sizes, purpose)

    def wanted_bytes(self) -> dict[str, int]:
        """The sizes that are to be had now; 0 where a server that is only watched has no limit."""
        state = self._store.now
        if state.control.engaged:
            return state.targets_bytes
        limits = {
            name: reading.maxmemory_bytes for name, reading in self._actuator.readings.items()
        }
        return {**state.targets_bytes, **limits}

    def has_limit(self, name: str) -> bool:
        """Whether the server has a ``maxmemory``, as far as it is known."""
        reading = self._actuator.readings.get(name)
        return reading is None or bool(reading.maxmemory_bytes)

    def _engage(self, targets_bytes: Mapping[str, int] | None, purpose: str) -> None:
        readings = self._actuator.readings
        state = self._store.now
        found = {name: reading.maxmemory_bytes for name, reading in readings.items()}
        fixed = {
            name
            for name, reading in readings.items()
            if not reading.evicts or state.control.holds(name, reading.maxmemory_bytes)
        }
        budget_bytes = self._actuator.budget.bytes
        sizes, targets = sizes_to_begin_with(
            with_minima_that_fit(self.config.servers, {}, budget_bytes),
            found,
            state.targets_bytes if state.control.engaged else {},
            fixed,
            budget_bytes,
            self._actuator.least_bytes(),
            interrupted=state.control.engaged and not state.settled,
        )
        before = ", ".join(
            f"{name} {_size_words(found[name]) if name in found else 'down'}"
            for name in (server.name for server in self.config.servers)
        )
        after = ", ".join(f"{name} {format_size(size)}" for name, size in sizes.items())
        log.info("%s: found %s; to have %s", purpose, before, after)
        if targets_bytes is not None:
            targets = {**targets, **targets_bytes}
        self._actuator.engage(sizes, targets, purpose)
        with self._store.update() as state:
            state.control = replace(state.control, engaged=True)

    def give_back(self) -> dict[str, str]:
        """The sizes from before SPREDS, whatever the budget is, and nothing more is set.

        Returns:
            Why, of the servers that did not take theirs.
        """
        with self._store.update() as state:
            state.control = replace(state.control, engaged=False, held={}, before_plan_bytes={})
        return self._actuator.restore(self._store.now.control.installed_bytes)


def _size_words(size_bytes: int) -> str:
    return format_size(size_bytes) if size_bytes else "without a limit"
