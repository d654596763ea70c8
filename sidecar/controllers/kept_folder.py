"""Keeps a controller's documents in a folder where it has no bucket.

Keeps the folder of an embedded controller small: old observations and plans go.
"""

from __future__ import annotations

import logging
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from sidecar.base.metrics import Metrics
from sidecar.config.controller_config import KeptDocuments
from sidecar.storage.store import FolderStore, StoreError
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX

# What the controller names its documents; teams' settings lie elsewhere and have other names.
_DOCUMENT = re.compile(r"\d{12}\.json")


def prune(folder: Path, node: str, kept: KeptDocuments, now_seconds: float | None = None) -> int:
    """Remove observations and plans of a node that are too old or too many. Returns how many.

    Raises:
        OSError: one cannot be removed.
    """
    oldest_seconds = (time.time() if now_seconds is None else now_seconds) - kept.seconds
    removed = 0
    for prefix in (OBSERVATIONS_PREFIX, PLANS_PREFIX):
        for path in _too_many(folder / prefix / node, kept.number, oldest_seconds):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _too_many(folder: Path, number: int, oldest_seconds: float) -> Iterator[Path]:
    if not folder.is_dir():
        return
    # Their names are cycles, in the order in which they were made.
    paths = sorted(path for path in folder.iterdir() if _DOCUMENT.fullmatch(path.name))
    # Others may have given such a name to what cannot be removed so, such as a folder.
    found = [
        (path, made.st_mtime) for path in paths if stat.S_ISREG((made := path.lstat()).st_mode)
    ]
    for place, (path, made_at) in enumerate(found):
        if place < len(found) - number or made_at < oldest_seconds:
            yield path


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
        """Write the document."""
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
