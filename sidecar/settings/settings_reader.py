"""Reads teams' settings before each observation; a bad document leaves the last good one."""

from __future__ import annotations

import logging

from sidecar.base.metrics import Metrics
from sidecar.base.plain_text import quoted
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.settings.remembered_settings import RememberedSettings
from sidecar.settings.settings_check import check_minimum
from sidecar.settings.settings_documents import SettingsDocuments, documents_in
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.store import BucketStore, FolderStore, StoreError, StoreUnreachableError
from solver_lambda.documents.keys import settings_key
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

_BEFORE = "the settings from before the restart"
# So many are remembered as told: a team may write any number.
_MOST_UNKNOWN = 20


class SettingsReader:
    """Reads the settings in force, by server. ``store`` may be ``None``: then nobody has any.

    Until the first reading those hold that ``remembered`` has from before a restart.
    """

    def __init__(
        self,
        store: FolderStore | BucketStore | None,
        config: SidecarConfig,
        metrics: Metrics,
        remembered: RememberedSettings | None = None,
    ) -> None:
        self._metrics = metrics
        self._good: dict[str, TeamSettings] = {}
        self._refused: dict[str, str] = {}
        self._unknown: set[str] = set()
        self._remembered = remembered or RememberedSettings(None)
        self.use(store, config)
        for server in config.servers:
            if server.name in self._remembered.documents:
                self._take(server, self._remembered.documents[server.name], _BEFORE)

    @property
    def in_force(self) -> dict[str, TeamSettings]:
        """Return what was read last."""
        return dict(self._good) if self._documents is not None else {}

    @property
    def refused(self) -> dict[str, str]:
        """Say why what was read last is not in force, by server; from any thread."""
        return dict(self._refused)

    def use(self, store: FolderStore | BucketStore | None, config: SidecarConfig) -> None:
        """Go over to another store and configuration; what is in force stays until it is read, as
        far as it is within the new limits."""
        self._documents = documents_in(store, config.node) if store is not None else None
        self._config = config
        for server in config.servers:
            self._keep_within_limits(server)

    def read(self) -> dict[str, TeamSettings]:
        """Read the settings in force now: what cannot be read leaves that server's last ones."""
        documents = self._documents
        if documents is None:
            return {}
        try:
            keys = documents.look()
        except StoreError as error:
            for server in self._config.servers:
                self._metrics.settings_unread.labels(server.name).inc()
            log.warning("settings cannot be looked for now, the last ones hold: %s", error)
            return dict(self._good)
        self._tell_unknown(keys)
        for server in self._config.servers:
            try:
                self._read_one(server, documents)
            except StoreError as error:
                self._metrics.settings_unread.labels(server.name).inc()
                log.warning(
                    "settings of %s cannot be read now, the last ones hold: %s", server.name, error
                )
                if isinstance(error, StoreUnreachableError):
                    log.warning("settings of the servers after it are not asked for now")
                    break
                self._refused.setdefault(
                    server.name, f"it cannot be read, so the last ones hold: {error}"
                )
        self._remembered.keep(self._good)
        return dict(self._good)

    def _tell_unknown(self, keys: set[str]) -> None:
        """Log once each document of no server: it is a typing error."""
        known = {settings_key(self._config.node, server.name) for server in self._config.servers}
        unknown = keys - known
        self._unknown &= unknown
        for key in sorted(unknown - self._unknown)[: _MOST_UNKNOWN - len(self._unknown)]:
            self._unknown.add(key)
            log.warning("%s is ignored: the node has no such server", key)

    def _read_one(self, server: ServerConfig, documents: SettingsDocuments) -> None:
        key = settings_key(self._config.node, server.name)
        text = documents.get(key)
        if text is None:
            self._refused.pop(server.name, None)
            if self._good.pop(server.name, None):
                log.info("settings of %s: removed; the operator's values hold", server.name)
            return
        self._take(server, text, key)

    def _take(self, server: ServerConfig, text: bytes | str, key: str) -> None:
        try:
            settings = TeamSettings.loads(text, key, self._config.limits)
            self._check_minima(server, settings, key)
        except DocumentError as error:
            self._keep_within_limits(server)
            self._refuse(server.name, str(error))
            return
        self._refused.pop(server.name, None)
        if self._good.get(server.name) != settings:
            self._good[server.name] = settings
            log.info(
                "settings of %s: version %s, signed %s",
                server.name,
                settings.version,
                quoted(settings.set_by),
            )

    def _check_minima(self, server: ServerConfig, settings: TeamSettings, key: str) -> None:
        check_minimum(server, settings, key)
        if settings.minimum_bytes is None:
            return
        minima = {other.name: self._minimum_bytes(other) for other in self._config.servers}
        minima[server.name] = settings.minimum_bytes
        if sum(minima.values()) > self._config.memory.budget_bytes:
            raise DocumentError(
                f"{key}: minimum_bytes {settings.minimum_bytes} makes the minima sum to "
                f"{format_size(sum(minima.values()))}, more than the budget, "
                f"{format_size(self._config.memory.budget_bytes)}"
            )

    def _minimum_bytes(self, server: ServerConfig) -> int:
        good = self._good.get(server.name)
        if good is None or good.minimum_bytes is None:
            return server.minimum_bytes
        return good.minimum_bytes

    def _keep_within_limits(self, server: ServerConfig) -> None:
        """Drop what was good and exceeds limits that were lowered since."""
        if (good := self._good.get(server.name)) is None:
            return
        key = settings_key(self._config.node, server.name)
        try:
            check_minimum(server, TeamSettings.loads(good.dumps(), key, self._config.limits), key)
        except DocumentError as error:
            self._good.pop(server.name, None)
            self._refuse(server.name, str(error))

    def _refuse(self, name: str, why: str) -> None:
        self._metrics.settings_refused.labels(name).inc()
        kept = self._good.get(name)
        instead = f"version {kept.version} holds" if kept else "the operator's values hold"
        if self._refused.get(name) != (words := f"{why}; {instead}"):
            self._refused[name] = words
            log.warning("settings of %s ignored, %s: %s", name, instead, why)
