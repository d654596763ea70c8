"""What is in force on a server while it shrinks, and what was there before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from sidecar.servers.redis_server import (
    GENTLE,
    TENACITY,
    USUAL,
    ServerReading,
    ServerRefusedError,
)
from sidecar.state import Replaced, SidecarState

Apply = Callable[[Mapping[str, str]], None]

log = logging.getLogger(__name__)

# When the sidecar stops, all servers are put back to normal at the same time.
_REPLACED_LOCK = threading.Lock()


class GentleShrink:
    """Of one server: puts ``GENTLE`` in force, and back what it replaced.

    ``apply`` is CONFIG SET; what it raises comes through.
    """

    def __init__(self, name: str, eviction_tenacity: int, state: SidecarState) -> None:
        self._name = name
        self._eviction_tenacity = eviction_tenacity
        self._state = state
        self._cannot_defrag = False

    def is_on(self, reading: ServerReading) -> bool:
        """Whether there is something to put back."""
        # Without a note it was left so, by a sidecar that died and kept no state.
        left = reading.tenacity == 0 and self._eviction_tenacity != 0
        return self._name in self._state.replaced or left

    def note_normal(self, reading: ServerReading) -> None:
        """Note in the state what ``begin`` will replace; the state must be saved between."""
        if self._name in self._state.replaced:
            return
        knobs = [TENACITY] if self._cannot_defrag else GENTLE
        config = {TENACITY: str(self._eviction_tenacity), **reading.config}
        settings = {key: config[key] for key in knobs if key in config}
        self._state.replaced = {
            **self._state.replaced,
            self._name: Replaced(reading.run_id, settings),
        }

    def begin(self, reading: ServerReading, apply: Apply) -> None:
        """Before a shrink, after ``note_normal``."""
        gentle = {key: GENTLE[key] for key in self._normal(reading)}
        try:
            if not self._apply_all(gentle, apply):
                apply({TENACITY: GENTLE[TENACITY]})
                self._cannot_defrag = True
                self._forget()
                self.note_normal(reading)
        except ServerRefusedError:
            if reading.tenacity != 0:
                self._forget()  # nothing was replaced
            raise

    def _apply_all(self, gentle: Mapping[str, str], apply: Apply) -> bool:
        if len(gentle) == 1:
            return False
        try:
            apply(gentle)
        except ServerRefusedError as error:
            log.debug("server %s: no active defragmentation: %s", self._name, error)
            return False
        return True

    def end(self, reading: ServerReading, apply: Apply) -> None:
        """After a shrink."""
        apply(self._normal(reading))
        self._forget()

    def forget_another_process(self, run_id: str) -> None:
        """A process that has started since has the settings of its own file."""
        replaced = self._state.replaced.get(self._name)
        if replaced is not None and replaced.run_id != run_id:
            self._forget()

    def _normal(self, reading: ServerReading) -> Mapping[str, str]:
        replaced = self._state.replaced.get(self._name)
        if replaced is not None:
            return replaced.settings
        normal = {TENACITY: str(self._eviction_tenacity)}
        if all(reading.config.get(key) == GENTLE[key] for key in ("activedefrag", "hz")):
            log.warning(
                "server %s was left in a shrink, and nothing tells how it was before: "
                "it gets the usual %s",
                self._name,
                ", ".join(f"{key} {value}" for key, value in USUAL.items()),
            )
            return {**normal, **USUAL}
        return normal

    def _forget(self) -> None:
        with _REPLACED_LOCK:
            self._state.replaced = {
                name: item for name, item in self._state.replaced.items() if name != self._name
            }
