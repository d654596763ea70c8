"""Tells each team what became of its settings: why its server has its size, after each plan."""

from __future__ import annotations

import json
import logging
import threading
from typing import Self

from sidecar.commands.explain.explain_words import server_sentences
from sidecar.config.controller_config import ControllerConfig
from sidecar.daemon import Sidecar
from sidecar.settings.team_report import report_document
from sidecar.storage.configured_stores import make_settings_store
from sidecar.storage.store import BucketStore, FolderStore
from solver_lambda.documents.keys import report_key

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
# Entries of the history that may tell what changed a size.
_HISTORY = 500


class TeamReports:
    """Reports to the teams while a sidecar runs; a context manager. A store that does not answer
    holds nobody up."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._stop = threading.Event()
        self._cycles = 0
        self._wished: set[str] = set()
        self._told_bytes: dict[str, int | None] = {}
        self._may_log = True
        self._store: FolderStore | BucketStore | None = None
        self._stored_by: ControllerConfig | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="team reports", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - whatever a store raises, it is tried again
                self._sidecar.metrics.reports_unwritten.inc()
                if self._may_log:
                    self._may_log = False
                    log.warning("teams cannot be told what became of their settings: %r", error)

    def look(self) -> None:
        """Write the reports if there is a plan since the last look. They are for all servers whose
        teams have set something, and for each that has another size than its team was told. Raises
        StoreError, DocumentError: until the next plan, some are old."""
        plan, cycles = self._sidecar.last_plan, self._sidecar.cycles
        if plan is None or cycles == self._cycles:
            return
        told, config = self._sidecar.status(), self._sidecar.config
        self._cycles = cycles
        wishing = {
            server["name"]
            for server in told["servers"]
            if server["settings_by"] or server["settings_refused"]
        }
        sizes = {server["name"]: server["maxmemory_bytes"] for server in told["servers"]}
        changed = {name for name, _ in sizes.items() - self._told_bytes.items()}
        # A team that has taken its settings back is told so once.
        concerned = wishing | self._wished | changed
        if not concerned or (store := self._store_of(config.controller)) is None:
            return
        history = [json.loads(text) for text in self._sidecar.history(_HISTORY, 1 << 62)]
        for server in config.servers:
            if server.name in concerned:
                sentences = server_sentences(server, told, history)
                report = report_document(told["now_seconds"], plan.cycle, sentences, config.limits)
                store.put(report_key(config.node, server.name), report)
        self._may_log, self._wished, self._told_bytes = True, wishing, sizes

    def _store_of(self, controller: ControllerConfig) -> FolderStore | BucketStore | None:
        """A client of S3 is dear to make, and a reload may bring another place."""
        if controller != self._stored_by:
            self._store, self._stored_by = make_settings_store(controller), controller
        return self._store
