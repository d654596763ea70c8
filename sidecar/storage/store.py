"""Stores documents: in a folder, or (in ``store_s3``) in buckets in S3."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from sidecar.base.regular_file import open_regular

# Of a folder, which others may fill.
MOST_NAMES = 2000


class StoreError(Exception):
    """The store failed; it may succeed later."""


class StoreUnreachableError(StoreError):
    """Nobody answered, so another document would fare no better."""


class Store(Protocol):
    """Keeps documents by key. Every method raises ``StoreError``."""

    def put(self, key: str, body: bytes) -> None:
        """Write a document, whole or not at all."""

    def get(self, key: str, max_bytes: int) -> bytes | None:
        """Read at most ``max_bytes`` + 1 bytes of a document, so that a larger one shows."""

    def delete(self, key: str) -> None:
        """Remove a document, if it is there."""


@dataclass(frozen=True)
class Version:
    """Says what a bucket has under a key, by its ETag and when it was written; ``None``: nothing.

    Attributes:
        is_certain: whether the answer said so; otherwise it may as well be forbidden to us.
    """

    written: str | None
    is_certain: bool = True


class BucketStore(Store, Protocol):
    """Keeps documents where each look costs money, and tells what has changed."""

    def version(self, key: str) -> Version:
        """Return a document's version."""

    def versions(self, prefix: str) -> dict[str, str]:
        """Return the ETags of all documents whose keys begin so, by key."""


class FolderStore:
    """Keeps documents as files under one folder.

    Who may look into a document's folder may read the document, whoever wrote it and with whatever
    umask: so teams and the sidecar can be different users, in a folder of a group of theirs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def put(self, key: str, body: bytes) -> None:
        path = self._folder / key
        try:
            _make_folder(path.parent)
            write_whole(path, body, 0o600 | path.parent.stat().st_mode & 0o044)
        except PermissionError as error:
            raise StoreError(
                f"{path}: {error.strerror}: you must be in the group of {path.parent}"
            ) from error
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error

    def get(self, key: str, max_bytes: int) -> bytes | None:
        path = self._folder / key
        try:
            # Teams put what they like into their folder: no link to what only the sidecar may read.
            with open_regular(path, more_flags=os.O_NOFOLLOW) as file:
                return file.read(max_bytes + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            why = "is a symbolic link, which is not followed" if is_link else error.strerror
            raise StoreError(f"{path}: {why}") from error

    def names(self, folder: str) -> set[str]:
        """Name the documents there, among the first ``MOST_NAMES`` files; none where it cannot be
        looked through."""
        try:
            with os.scandir(self._folder / folder) as entries:
                found = [entry.name for entry in islice(entries, MOST_NAMES)]
        except OSError:
            return set()
        return {name for name in found if name.endswith(".json") and not name.startswith(".")}

    def delete(self, key: str) -> None:
        path = self._folder / key
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error


def _make_folder(path: Path) -> None:
    """Make a folder with those above it. Whatever the umask is, nobody else may write there."""
    for folder in reversed((path, *path.parents)):
        if not folder.exists():
            folder.mkdir(mode=0o755, exist_ok=True)


def write_whole(path: Path, body: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step, so that no reader and no crash sees half of it, or the old one
    after this has returned. ``mode``: who may do what with the new one.

    Raises:
        OSError
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_halves(path: Path) -> int:
    """Remove what writers of this file left that were killed; returns how many. Call it only if
    nobody writes the file now.

    Raises:
        OSError: one cannot be removed.
    """
    half = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}")
    found = [] if not path.parent.is_dir() else sorted(path.parent.iterdir())
    halves = [other for other in found if half.fullmatch(other.name) and other.is_file()]
    for other in halves:
        other.unlink(missing_ok=True)
    return len(halves)
