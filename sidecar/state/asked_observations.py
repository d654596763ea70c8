"""Keeps what the sidecar itself saw when it asked for plans; it judges the answers by that."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from sidecar.base.regular_file import open_regular
from sidecar.storage.store import write_whole
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES, Observation
from solver_lambda.documents.reader import DocumentError

log = logging.getLogger(__name__)


def asked_path(state_file: Path | None) -> Path | None:
    """Return the file's path, beside the state."""
    return state_file.with_name(f"{state_file.name}.asked") if state_file else None


class AskedObservations:
    """Keeps those that may still be answered, by cycle; the last one is on file, too, for a plan
    that comes after a restart. ``None`` for the path: nothing is on file.

    What cannot be read or written is logged: then such a plan is refused.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._unwritten: Observation | None = None
        last = self._load()
        self._asked: dict[int, Observation] = {last.cycle: last} if last is not None else {}

    def get(self, cycle: int) -> Observation | None:
        """Return one as it was made here, never as it lies where others can write."""
        return self._asked.get(cycle)

    @property
    def last(self) -> Observation | None:
        """Return the last one, of this start or of the one before."""
        return self._asked.get(max(self._asked, default=-1))

    def keep(self, observation: Observation, waiting: Collection[int]) -> None:
        """Keep one more; those of cycles that are not ``waiting`` for a plan are forgotten."""
        others = {cycle: one for cycle, one in self._asked.items() if cycle in waiting}
        self._asked = {**others, observation.cycle: observation}
        self._unwritten = observation
        self.write_again()

    def write_again(self) -> None:
        """Try what could not be written."""
        if self._path is None or self._unwritten is None:
            return
        try:
            write_whole(self._path, self._unwritten.dumps())
        except OSError as error:
            words = error.strerror or error
            log.warning("the observation cannot be kept in %s: %s", self._path, words)
        else:
            self._unwritten = None

    def _load(self) -> Observation | None:
        if self._path is None or not self._path.exists():
            return None
        try:
            with open_regular(self._path) as file:
                text = file.read(MAX_OBSERVATION_BYTES + 1)
            return Observation.loads(text, str(self._path))
        except (OSError, DocumentError) as error:
            log.warning("the last observation is left out: %s", error)
            return None
