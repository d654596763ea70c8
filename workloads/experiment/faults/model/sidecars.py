"""The sidecars that are played on models: the real actuator, or the least around the resolver."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.control.enforcement import Enforcement
from sidecar.servers.actuator import Actuator
from sidecar.servers.budget_keeper import BudgetKeeper
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.connection.server_reading import TENACITY
from sidecar.servers.sizes.transitions import (
    EnterShrinkMode,
    Grow,
    LeaveShrinkMode,
    ServerState,
    Shrink,
    Transition,
    resolve,
)
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import DocumentError
from workloads.experiment.faults.model.model_line import ModelLine
from workloads.experiment.faults.model.simulated_time import SimulatedClock

_SAMPLING = SamplingConfig(endpoint="")
# One for all models: nobody looks at what it counts.
_METRICS = Metrics()
_RETRY_SECONDS = 0.5
_GENTLE = {TENACITY: "0", "hz": "500"}


class ModelSidecar:
    """Models a sidecar from its start to its end; ``store`` is what it has on file."""

    def __init__(
        self, lines: Sequence[RedisServer], budget_bytes: int, store: StateStore, *, gradual: bool
    ) -> None:
        configs = [line.config for line in lines]
        memory = MemoryConfig(budget_bytes=budget_bytes, rss_wait_seconds=5.0, holds_by_hand=False)
        self._configs = configs
        self._actuator = Actuator(lines, memory, _SAMPLING, store, _METRICS, gradual=gradual)
        config: Any = SimpleNamespace(servers=tuple(configs))
        self._enforcement = Enforcement(config, store, self._actuator)
        self._keeper = BudgetKeeper(self._actuator, store, _METRICS, lambda *_: None)
        self._is_begun = False

    @property
    def is_settled(self) -> bool:
        """Whether it is settled, as ``Actuator.settled`` says."""
        return self._actuator.settled

    def begin(self) -> None:
        """Look at the servers, and keep their sizes from now on, if that can be had."""
        self._actuator.claim()
        self._enforcement.found(self._actuator.read_all())
        self._engage(None)

    def plan(self, sizes_bytes: Mapping[str, int]) -> None:
        """Bring the servers there, if that can be had."""
        if self._is_begun:
            self._actuator.set_targets(sizes_bytes, "plan")
        else:
            self._engage(sizes_bytes)

    def step(self) -> None:
        """Do what the actuator's thread and the main one do in one round."""
        self._actuator.step()
        self._keeper.keep(self._configs)

    def try_again(self) -> None:
        """Try again to keep sizes, where that could not be had."""
        if not self._is_begun:
            self._engage(None)

    def terminate(self) -> None:
        """End as after SIGTERM."""
        self._actuator.stop()
        # It does not wait for those that hang; time goes by only when all of them are done.
        for thread in threading.enumerate():
            if thread.name in {config.name for config in self._configs}:
                thread.join()

    def _engage(self, sizes_bytes: Mapping[str, int] | None) -> None:
        try:
            if sizes_bytes is None:
                self._enforcement.begin()
            else:
                self._enforcement.move(sizes_bytes, "plan", None)
            self._is_begun = True
        except DocumentError:  # as the control room has it: it is tried again
            self._actuator.watch()


@dataclass
class ResolverFile:
    """What survives the sidecar: the last plan, and what shrinks replaced, by server."""

    targets_bytes: dict[str, int] = field(default_factory=dict)
    replaced: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)


@dataclass
class _Belief:
    """Holds what is believed of one server; ``at_most_bytes`` is ``None`` until it was read."""

    at_most_bytes: float | None = None
    held_bytes: int = 0
    starts: int = 0
    evicts: bool = True
    is_gentle: bool = False
    is_up: bool = True
    ask_at: float = 0.0
    refuses_until: float = 0.0


class ResolverSidecar:
    """Does as ``Sidecar`` has it; targets count at once."""

    def __init__(
        self,
        lines: Sequence[ModelLine],
        budget_bytes: int,
        file: ResolverFile,
        clock: SimulatedClock,
    ) -> None:
        self._lines = {line.name: line for line in lines}
        self._beliefs = {line.name: _Belief() for line in lines}
        self._budget_bytes = budget_bytes
        self._file = file
        self._clock = clock
        self.is_settled = False

    def begin(self) -> None:
        """There is nothing to do before the first step."""

    def plan(self, sizes_bytes: Mapping[str, int]) -> None:
        self._file.targets_bytes = dict(sizes_bytes)
        self.is_settled = False

    def try_again(self) -> None:
        """Do nothing: it never gives up."""

    def step(self) -> None:
        for name in self._lines:
            self._read(name)
        states = [self._state(name) for name in self._lines]
        self.is_settled = True
        for transition in resolve(states, self._budget_bytes):
            self.is_settled = False
            try:
                if not self._carry_out(transition):
                    return
            except ServerRefusedError:
                self._beliefs[transition.name].refuses_until = self._clock.now + _RETRY_SECONDS
                return
            except ServerDownError:
                self._lose(transition.name)
                return

    def terminate(self) -> None:
        for name in self._lines:
            if self._read(name) and self._beliefs[name].is_gentle:
                try:
                    self._leave(name)
                except (ServerRefusedError, ServerDownError):
                    self._lose(name)

    def _read(self, name: str) -> bool:
        """Read a server; return whether it answered."""
        belief = self._beliefs[name]
        if self._clock.now < belief.ask_at:
            return False
        try:
            seen = self._lines[name].look()
        except ServerDownError:
            self._lose(name)
            return False
        if seen.starts != belief.starts:
            belief.refuses_until = 0.0
        belief.at_most_bytes = seen.limit_bytes
        belief.held_bytes, belief.starts, belief.evicts = seen.used_bytes, seen.starts, seen.evicts
        # Of another process than the one that was changed, nothing is to be put back.
        if self._file.replaced.get(name, (seen.starts, {}))[0] != seen.starts:
            del self._file.replaced[name]
        belief.is_gentle = name in self._file.replaced or seen.knobs[TENACITY] == "0"
        belief.is_up = True
        return True

    def _state(self, name: str) -> ServerState:
        belief, target = self._beliefs[name], self._file.targets_bytes[name]
        if belief.at_most_bytes is None:
            return ServerState(name, target, 0, target, reachable=False)
        return ServerState(
            name,
            belief.at_most_bytes,
            belief.held_bytes,
            target,
            reachable=belief.is_up,
            in_shrink_mode=belief.is_gentle,
            evicts=belief.evicts,
            refuses=self._clock.now < belief.refuses_until,
        )

    def _carry_out(self, transition: Transition) -> bool:
        name = transition.name
        match transition:
            case EnterShrinkMode():
                knobs = self._lines[name].look().knobs
                before = {knob: knobs[knob] for knob in _GENTLE}
                self._file.replaced[name] = (self._beliefs[name].starts, before)
                self._lines[name].set(_GENTLE)
            case LeaveShrinkMode():
                self._leave(name)
            case Shrink(to_bytes=to_bytes):
                if not self._read(name) or not self._beliefs[name].evicts:
                    return False
                if to_bytes > (self._beliefs[name].at_most_bytes or 0):
                    return False  # it has less by now: this would be a growth
                self._lines[name].set({"maxmemory": to_bytes})
                self._beliefs[name].at_most_bytes = to_bytes
            case Grow(to_bytes=to_bytes):
                # Before it is sent: if the reply is lost, it may be in force all the same.
                self._beliefs[name].at_most_bytes = to_bytes
                self._lines[name].set({"maxmemory": to_bytes})
        return True

    def _leave(self, name: str) -> None:
        usual = {TENACITY: "10", "hz": "10"}
        _, before = self._file.replaced.get(name, (0, usual))
        self._lines[name].set({**usual, **before})
        self._file.replaced.pop(name, None)

    def _lose(self, name: str) -> None:
        self._beliefs[name].is_up = False
        self._beliefs[name].ask_at = self._clock.now + _RETRY_SECONDS
