"""Whether the servers have come as near to their sizes as they can, and what is said of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sidecar.base.log_setup import BOUNDED
from sidecar.state.state_store import StateStore

log = logging.getLogger(__name__)


class Convergence:
    """Notes whether one node's servers have come to their sizes. ``is_by_plan``: whether the sizes
    to come are a plan's."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._settled = threading.Event()
        self._purpose, self.is_by_plan = "", False
        self._told = self._is_there = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will happen by itself, until a server fills."""
        return self._settled.is_set()

    def depart(self, purpose: str, *, is_by_plan: bool = False) -> None:
        """Begin to go to new sizes."""
        self._purpose, self.is_by_plan = purpose, is_by_plan
        self._told = self._is_there = False
        self._settled.clear()

    def rest(self) -> None:
        """Settle as nothing is done now, wherever they are."""
        self._settled.set()

    def note(
        self, *, moved: bool, freeing: bool, is_there: bool, in_words: Callable[[], str]
    ) -> None:
        """Note the end of a step: something moved, or some memory is being freed, or neither."""
        if moved:
            self._settled.clear()
            return
        if freeing or (self.is_settled and is_there == self._is_there):
            return
        with self._store.update() as state:
            state.settled = is_there
        # While memory is handed over there is not a line for each portion.
        if is_there or not self._told:
            log.info("%s: %s", self._purpose, in_words(), extra=BOUNDED)
        self._told, self._is_there = True, is_there
        self._settled.set()
