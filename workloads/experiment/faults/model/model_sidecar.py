"""The real actuator and who gives it orders, over models of servers, one step at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.control.enforcement import Enforcement
from sidecar.servers.actuator import Actuator
from sidecar.servers.budget_keeper import BudgetKeeper
from sidecar.servers.redis_server import RedisServer
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import DocumentError

_SAMPLING = SamplingConfig(endpoint="")
# One for all models: nobody looks at what it counts.
_METRICS = Metrics()


class ModelSidecar:
    """From its start to its end; ``store`` is what it has on file."""

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
        """As ``Actuator.settled``."""
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
        """What the actuator's thread and the main one do in one round."""
        self._actuator.step()
        self._keeper.keep(self._configs)

    def try_again(self) -> None:
        """To keep sizes, where that could not be had."""
        if not self._is_begun:
            self._engage(None)

    def terminate(self) -> None:
        """As after SIGTERM."""
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
