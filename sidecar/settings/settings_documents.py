"""Reads a node's documents of settings: from a folder each time, from a bucket when something
changed."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from sidecar.settings.team_settings import MAX_SETTINGS_BYTES, now_text
from sidecar.storage.store import (
    BucketStore,
    FolderStore,
    StoreError,
    StoreUnreachableError,
    Version,
)
from solver_lambda.documents.keys import settings_marker_key, settings_prefix

log = logging.getLogger(__name__)

# Documents that were written without the marker are found so late at the latest.
LISTED_EVERY_SECONDS = 86_400.0


class SettingsDocuments(Protocol):
    """Reads what teams have written for the servers of one node. Both methods raise
    ``StoreError``."""

    def look(self) -> set[str]:
        """Look what there is, before a reading; the keys."""

    def get(self, key: str) -> bytes | None:
        """Return a document as it was at the last look, or later; ``None``: there is none."""


class FolderDocuments:
    """Looks for documents in a folder, where every look is free."""

    def __init__(self, folder: FolderStore, node: str) -> None:
        self._folder = folder
        self._prefix = settings_prefix(node)

    def look(self) -> set[str]:
        return {self._prefix + name for name in self._folder.names(self._prefix)}

    def get(self, key: str) -> bytes | None:
        return self._folder.get(key, MAX_SETTINGS_BYTES)


class BucketDocuments:
    """Looks in a bucket, where each request costs: one look at the marker tells whether to list.

    Who changes a document writes the marker after it. Here the marker is looked at first, then the
    documents: a change that comes between makes another list next time, and none is lost. A list
    that fails is made again at the next look, a document that cannot be read is asked for again at
    the next reading. Any team of the node may write the marker, also so that we cannot read it:
    then each look makes a list.
    """

    def __init__(
        self, bucket: BucketStore, node: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bucket = bucket
        self._clock = clock
        self._prefix = settings_prefix(node)
        self._marker_key = settings_marker_key(node)
        # The marker before the last list; None: there is no list that holds.
        self._marker: Version | None = None
        self._listed_at_seconds = 0.0
        self._etags: dict[str, str] = {}
        self._texts: dict[str, tuple[str, bytes]] = {}

    def look(self) -> set[str]:
        marker = self._marker_now()
        is_old = self._clock() >= self._listed_at_seconds + LISTED_EVERY_SECONDS
        if marker is None or marker != self._marker or is_old:
            self._marker = None
            if self._list() and marker is not None and not marker.is_certain:
                marker = None
                self._tell_unreadable("is there, and may not be read")
            self._marker = marker
        return set(self._etags)

    def _marker_now(self) -> Version | None:
        """Return the marker's version; ``None``: it cannot be read."""
        try:
            return self._bucket.version(self._marker_key)
        except StoreUnreachableError:
            raise
        except StoreError as error:
            self._tell_unreadable(str(error))
            return None

    def _tell_unreadable(self, why: str) -> None:
        log.warning("%s/%s: %s: settings are listed each time", self._bucket, self._marker_key, why)

    def get(self, key: str) -> bytes | None:
        etag = self._etags.get(key)
        if etag is None:
            return None
        has_etag, text = self._texts.get(key, ("", b""))
        if has_etag == etag:
            return text
        fresh = self._bucket.get(key, MAX_SETTINGS_BYTES)
        if fresh is None:  # removed since the list
            del self._etags[key]
            return None
        self._texts[key] = (etag, fresh)
        return fresh

    def _list(self) -> bool:
        """Whether the marker is there."""
        etags = self._bucket.versions(self._prefix)
        self._listed_at_seconds = self._clock()
        is_there = etags.pop(self._marker_key, None) is not None
        self._etags = etags
        self._texts = {key: self._texts[key] for key in self._texts.keys() & etags.keys()}
        return is_there


def mark_changed(store: FolderStore | BucketStore, node: str, server: str) -> None:
    """Tell the node's sidecar that a server's settings have changed: it looks through a folder each
    time, but not through a bucket. Raises StoreError."""
    if isinstance(store, FolderStore):
        return
    # Never the same twice, because the ETag is a digest of it.
    change = {"server": server, "changed_at": now_text(), "change": uuid.uuid4().hex}
    store.put(settings_marker_key(node), json.dumps(change).encode())


def documents_in(store: FolderStore | BucketStore, node: str) -> SettingsDocuments:
    """Return those of one node, by the kind of store."""
    if isinstance(store, FolderStore):
        return FolderDocuments(store, node)
    return BucketDocuments(store, node)
