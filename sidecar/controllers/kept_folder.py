"""The folder where a controller without a bucket keeps its documents."""

from __future__ import annotations

import logging
from pathlib import Path

from sidecar.base.metrics import Metrics
from sidecar.config.controller_config import KeptDocuments
from sidecar.storage.document_pruning import prune
from sidecar.storage.store import FolderStore, StoreError

log = logging.getLogger(__name__)


class KeptFolder:
    """Keeps observations and plans under the same keys as in S3, until they are too old or too
    many. What cannot be kept is logged and counted. ``folder`` may be ``None``: nothing is kept.
    """

    def __init__(self, folder: Path | None, kept: KeptDocuments, metrics: Metrics) -> None:
        self._folder = folder
        self._kept = kept
        self._metrics = metrics

    def keep(self, key: str, document: bytes) -> None:
        """Write it."""
        if self._folder is None:
            return
        try:
            FolderStore(self._folder).put(key, document)
        except StoreError as error:
            self._metrics.store_errors.inc()
            log.warning("document not kept: %s", error)

    def prune(self, node: str) -> None:
        """Remove what need not be kept any more."""
        if self._folder is None:
            return
        try:
            prune(self._folder, node, self._kept)
        except OSError as error:
            self._metrics.store_errors.inc()
            log.warning("old documents cannot be removed: %s", error)
