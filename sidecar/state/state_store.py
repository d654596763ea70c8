"""Owns the sidecar's state: in memory for its threads, in one file for its next life.

Any thread may look at ``now``. Any may change the state by ``update``, which lets one at a time,
and has it on file when it returns. Its lock is the innermost: whoever updates may hold the
actuator's lock. The actuator's may be taken under that of the sidecar (which keeps plans and
observations apart), but never the other way round.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sidecar.base.private_files import make_own_folder
from sidecar.base.regular_file import open_regular
from sidecar.state.control_state import ControlState, Pause
from sidecar.state.sidecar_state import SidecarState
from sidecar.storage.store import remove_halves, write_whole
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.reader import DocumentError

log = logging.getLogger(__name__)

MAX_STATE_BYTES = 16 * 1024 * 1024
# What an update does beside something else, so that nobody sees one without the other.
Note = Callable[[SidecarState], None]


def note_nothing(_: SidecarState) -> None:
    """Change nothing beside it."""


class StateStore:
    """Keeps the state in a file, of which there is one store at a time. It is a new one if there is
    none or it cannot be read, which is logged.

    ``None`` for the file: the state lives as long as the process.

    Attributes:
        is_saved: whether what ``now`` says is on file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.RLock()
        if path is None:
            log.info("no state_file: a plan that is under way at the end will be refused later")
        else:
            _tidy(path)
        self._state = _read_or_leave_aside(path) if path else SidecarState()
        self.is_saved = True

    @property
    def now(self) -> SidecarState:
        """Return the state as it is, to look at only."""
        return self._state

    @contextmanager
    def update(self) -> Iterator[SidecarState]:
        """Yield a copy to change; it becomes the state, and goes on file, if the block ends well.

        That it cannot be written is logged: then ``is_saved`` is false, and the next update, or
        ``write_again``, tries again.
        """
        with self._lock:
            state = copy.copy(self._state)
            yield state
            if state != self._state or not self.is_saved:
                self._state, was_saved = state, self.is_saved
                self.is_saved = self._path is None or _save(self._path, state)
                if self.is_saved and not was_saved:
                    log.info("state file %s is written again", self._path)

    def write_again(self) -> None:
        """Try what could not be written: it may say what was ordered while the disk was full."""
        if not self.is_saved:
            with self.update():
                pass


def load_state(path: Path) -> SidecarState:
    """Load the state in a file; a new one if there is none or it cannot be read, which is
    logged."""
    return _read(path) or SidecarState()


def _read(path: Path) -> SidecarState | None:
    """Read a file; ``None`` if it cannot be read, which is logged."""
    try:
        with open_regular(path) as file:
            text = file.read(MAX_STATE_BYTES + 1)
        return SidecarState.from_json(parse_json(text, str(path), MAX_STATE_BYTES))
    except FileNotFoundError:
        return SidecarState()
    except (OSError, DocumentError) as error:
        log.warning("state file %s is unusable, starting without it: %s", path, error)
        return None


def _read_or_leave_aside(path: Path) -> SidecarState:
    """A file that cannot be read is kept beside; what was ordered, and what servers had before
    SPREDS, is not known then: nothing is set until somebody says so."""
    if (state := _read(path)) is not None:
        return state
    kept = path.with_name(f"{path.name}.unreadable")
    try:
        path.replace(kept)
    except OSError as error:
        log.warning("state file %s cannot be moved to %s: %s", path, kept, error.strerror)
    why = f"its state file could not be read: it is {kept} now"
    return SidecarState(control=ControlState(pause=Pause("spreds", time.time(), why)))


# Files that others write beside the state.
_BESIDE = ("history", "asked", "curves")


def _tidy(path: Path) -> None:
    try:
        beside = (path, *(path.with_name(f"{path.name}.{one}") for one in _BESIDE))
        if count := sum(map(remove_halves, beside)):
            log.info("removed %d unfinished files beside state file %s", count, path)
    except OSError as error:
        log.warning("unfinished files beside state file %s stay: %s", path, error.strerror)


def _save(path: Path, state: SidecarState) -> bool:
    """Nothing takes the place of the last good file that the next start would not read."""
    try:
        text = json.dumps(state.to_json(), indent=1).encode()
        SidecarState.from_json(parse_json(text, "what would be in it", MAX_STATE_BYTES))
        make_own_folder(path.parent)
        write_whole(path, text)
    except (OSError, DocumentError) as error:
        # The file's name is left out, because part of it changes each time.
        words = (isinstance(error, OSError) and error.strerror) or error
        log.warning("state file %s cannot be written: %s", path, words)
        return False
    return True


def note_installed(store: StateStore, server: str, size_bytes: int) -> None:
    """Note what a server has that was never seen before (0: no limit), for when it is given
    back."""
    if server not in store.now.control.installed_bytes:
        with store.update() as state:
            # A sidecar that knew no modes noted what it found before its first plan.
            first_bytes = state.first_bytes.get(server, size_bytes)
            installed = {**state.control.installed_bytes, server: first_bytes}
            state.control = replace(state.control, installed_bytes=installed)
