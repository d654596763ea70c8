"""Sets what is in force on a server while it shrinks, and puts back what was there before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from sidecar.servers.connection.server_errors import ServerRefusedError
from sidecar.servers.connection.server_reading import TENACITY, ServerReading
from sidecar.state.sidecar_state import SavedSettings, SidecarState
from sidecar.state.state_store import StateStore

Apply = Callable[[Mapping[str, str]], None]

log = logging.getLogger(__name__)

# In force while a server shrinks, as far as it has them: evictions do not hold up clients
# (measured: p99 of 0.2 ms instead of 436 ms), and the pages that they leave half empty go back to
# the machine, in many short slices (measured: p99 of 0.6 ms instead of 15 ms and more with hz 10).
# In the words of CONFIG GET, so that it can be seen whether they are in force.
SHRINK_MODE: Mapping[str, str] = {
    TENACITY: "0",
    "activedefrag": "yes",
    "active-defrag-ignore-bytes": str(4 << 20),
    "active-defrag-cycle-us": "500",  # Valkey 8.1 and later
    "hz": "500",
}
# The servers' defaults. They are put back if a dead sidecar left SHRINK_MODE and no note of the
# values before.
DEFAULTS: Mapping[str, str] = {
    "activedefrag": "no",
    "active-defrag-ignore-bytes": "100mb",
    "hz": "10",
}


class ShrinkMode:
    """Puts ``SHRINK_MODE`` in force on one server, and back what it replaced.

    ``apply`` is CONFIG SET; what it raises comes through.
    """

    def __init__(self, name: str, eviction_tenacity: int, store: StateStore) -> None:
        self._name = name
        self._eviction_tenacity = eviction_tenacity
        self._store = store
        self._cannot_defrag = False
        self._has_told = False  # once while the file cannot be written

    def is_on(self, reading: ServerReading) -> bool:
        """Whether there is something to put back."""
        # If nothing is noted, a sidecar that died and kept no state has left it in a shrink.
        left = reading.tenacity == 0 and self._eviction_tenacity != 0
        return self._replaced is not None or left

    def save_settings(self, reading: ServerReading) -> bool:
        """Note on file what ``begin`` will replace, and return whether it is there: without that,
        nothing may be replaced."""
        before = self._replaced
        knobs = [TENACITY] if self._cannot_defrag else SHRINK_MODE
        config = {TENACITY: str(self._eviction_tenacity), **reading.config}
        settings = {key: config[key] for key in knobs if config.get(key)}
        if before is not None:
            settings |= _ours(before.settings, reading)
        known = self._store.now.before_shrink
        with self._store.update() as state:
            _note(state, self._name, SavedSettings(reading.run_id, settings))
            state.before_shrink = {**state.before_shrink, self._name: settings}
        if self._store.is_saved:
            self._has_told = False
            return True
        self._note(before)
        with self._store.update() as state:
            state.before_shrink = known
        if not self._has_told:
            self._has_told = True
            log.warning(
                "server %s shrinks with its clients held up more than usual: how it was before "
                "cannot be kept on file",
                self._name,
            )
        return False

    def begin(self, reading: ServerReading, apply: Apply) -> None:
        """Begin it before a shrink, after ``save_settings``."""
        gentle = {key: SHRINK_MODE[key] for key in self._normal(reading)}
        try:
            if not self._apply_all(gentle, apply):
                apply({TENACITY: SHRINK_MODE[TENACITY]})
                self._cannot_defrag = True
        except ServerRefusedError:
            self._keep_ours(reading)  # nothing was replaced now
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
        """End it after a shrink: what somebody has set meanwhile stays."""
        ours = _ours(self._normal(reading), reading)
        if ours:
            apply(ours)
        replaced = self._replaced
        for key, value in replaced.settings.items() if replaced else ():
            now = reading.config.get(key)
            if now not in (None, value, SHRINK_MODE[key]):
                log.warning(
                    "server %s: somebody set %s to %s in a shrink: it stays", self._name, key, now
                )
        self._note(None)

    def notice_process(self, reading: ServerReading) -> None:
        """A process that has started since has the settings of its own file: the usual ones, or
        those of the shrink, where CONFIG REWRITE has written them."""
        replaced = self._replaced
        if replaced is None or replaced.run_id == reading.run_id:
            return
        self._keep_ours(reading)
        if self._replaced is not None:
            log.warning(
                "server %s started with a shrink's settings in its configuration file: those from "
                "before the shrink are put back when it is done; CONFIG REWRITE then keeps them",
                self._name,
            )

    def _keep_ours(self, reading: ServerReading) -> None:
        """Forget what does not have the value that we set."""
        replaced = self._replaced
        ours = _ours(replaced.settings, reading) if replaced else {}
        self._note(SavedSettings(reading.run_id, ours) if ours else None)

    def _normal(self, reading: ServerReading) -> Mapping[str, str]:
        replaced = self._replaced
        if replaced is not None:
            return replaced.settings
        normal = {TENACITY: str(self._eviction_tenacity)}
        if any(reading.config.get(key) != SHRINK_MODE[key] for key in ("activedefrag", "hz")):
            return normal
        # Or its file has it from CONFIG REWRITE in a shrink that was over before it started.
        if last := _known(self._store.now.before_shrink.get(self._name, {})):
            log.warning(
                "server %s is as in a shrink: it gets what it had before its last", self._name
            )
            return last
        log.warning(
            "server %s was left in a shrink, and nothing tells how it was before: "
            "it gets the usual %s",
            self._name,
            ", ".join(f"{key} {value}" for key, value in DEFAULTS.items()),
        )
        return {**normal, **DEFAULTS}

    @property
    def _replaced(self) -> SavedSettings | None:
        saved = self._store.now.replaced.get(self._name)
        known = _known(saved.settings) if saved else {}
        return SavedSettings(saved.run_id, known) if saved and known else None

    def _note(self, replaced: SavedSettings | None) -> None:
        with self._store.update() as state:
            _note(state, self._name, replaced)


def _note(state: SidecarState, name: str, replaced: SavedSettings | None) -> None:
    others = {other: item for other, item in state.replaced.items() if other != name}
    state.replaced = {**others, name: replaced} if replaced else others


def _known(settings: Mapping[str, str]) -> dict[str, str]:
    """Return them without what another version of the sidecar may have saved."""
    return {key: value for key, value in settings.items() if key in SHRINK_MODE}


def _ours(before: Mapping[str, str], reading: ServerReading) -> dict[str, str]:
    """Return those settings from before a shrink in whose place there is still what we set."""
    return {
        key: value
        for key, value in before.items()
        if reading.config.get(key) == SHRINK_MODE[key] != value
    }
