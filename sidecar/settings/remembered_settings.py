"""Keeps teams' settings from before a restart, for as long as the store does not answer after
it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from sidecar.settings.team_settings import MAX_SETTINGS_BYTES, TeamSettings
from sidecar.storage.store import write_whole
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.reader import MAX_SERVERS, DocumentError

log = logging.getLogger(__name__)

MAX_BYTES = MAX_SERVERS * MAX_SETTINGS_BYTES


def remembered_path(state_file: Path | None) -> Path | None:
    """Return the file's path, beside the state."""
    return state_file.with_name(f"{state_file.name}.settings") if state_file else None


class RememberedSettings:
    """Keeps a file with each server's document as it was last in force.

    ``None`` for the path: nothing is remembered. What cannot be read or written is logged: the file
    only stands in for a store.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written: dict[str, str] = self._load()

    @property
    def documents(self) -> Mapping[str, str]:
        """Return them as they were on file, by server; not yet checked."""
        return self._written

    def keep(self, settings: Mapping[str, TeamSettings]) -> None:
        """Keep these, which are in force now."""
        documents = {server: json.dumps(one.to_json()) for server, one in sorted(settings.items())}
        if self._path is None or documents == self._written:
            return
        try:
            written = ", ".join(f"{json.dumps(name)}: {text}" for name, text in documents.items())
            write_whole(self._path, f"{{{written}}}\n".encode())
        except OSError as error:
            log.warning("settings cannot be remembered in %s: %s", self._path, error)
            return
        self._written = documents

    def _load(self) -> dict[str, str]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            fields = parse_json(self._path.read_bytes(), str(self._path), MAX_BYTES)
            return {name: json.dumps(fields.value(name)) for name in fields.names()}
        except (DocumentError, OSError) as error:
            log.warning("remembered settings are left out: %s", error)
            return {}
