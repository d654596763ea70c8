"""Finds the plans of a fleet in folders, and in buckets of one or several stacks."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from solver_lambda.documents.keys import NODE_PATTERN, PLANS_PREFIX
from solver_lambda.documents.plan import MAX_PLAN_BYTES

READERS = 16
_FILE = re.compile(r"(\d{12})\.json")
_S3 = "s3://"


class SourceError(Exception):
    """Plans cannot be listed or read; one sentence that names where."""


class PlanKey(NamedTuple):
    """Identifies one plan."""

    node: str
    cycle: int

    @property
    def path(self) -> str:
        """Return the path below the folder of all nodes."""
        return f"{self.node}/{self.cycle:012d}.json"


# The document, cut above the longest that a plan may be, or in words why there is none.
Document = tuple[PlanKey, bytes | str]


class PlanSource(Protocol):
    """``name`` tells one from another. Both methods raise SourceError."""

    name: str

    def versions(self) -> dict[PlanKey, str]:
        """Find all plans there, and what changes when one is written again; whatever is not named
        like a plan is passed over."""

    def read(self, keys: Iterable[PlanKey]) -> Iterator[Document]:
        """Read those of ``keys`` that are still there: nodes prune while they are read."""

    def place(self, key: PlanKey) -> str:
        """Return where that plan lies, for people."""


class FolderPlans:
    """A folder with one folder for each node, or with those in its ``plans/``."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        inner = folder / PLANS_PREFIX
        self._folder = inner if inner.is_dir() else folder
        self.name = str(self._folder)

    def versions(self) -> dict[PlanKey, str]:
        try:
            nodes = [
                entry.name
                for entry in os.scandir(self._folder)
                if NODE_PATTERN.fullmatch(entry.name) and entry.is_dir()
            ]
            return {key: version for node in nodes for key, version in self._of_node(node)}
        except OSError as error:
            raise SourceError(f"{self._folder}: {error.strerror or error}") from error

    def _of_node(self, node: str) -> Iterator[tuple[PlanKey, str]]:
        try:
            entries = os.scandir(self._folder / node)
        except FileNotFoundError:
            return
        for entry in entries:
            match = _FILE.fullmatch(entry.name)
            if match:
                try:
                    found = entry.stat()
                except FileNotFoundError:
                    continue
                yield PlanKey(node, int(match[1])), f"{found.st_size} {found.st_mtime_ns}"

    def read(self, keys: Iterable[PlanKey]) -> Iterator[Document]:
        for key in keys:
            try:
                yield key, _read_file(self.place(key))
            except FileNotFoundError:
                continue
            except OSError as error:
                yield key, error.strerror or str(error)

    def place(self, key: PlanKey) -> str:
        return f"{self.name}/{key.path}"


def _read_file(path: str) -> bytes | str:
    # A file object would take half as long again, for each of very many; and what is no file, as a
    # pipe, must not be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return "it is no file"
        # Room for the longest plan, for each of very many, would take longer than to read them.
        return os.read(descriptor, min(found.st_size, MAX_PLAN_BYTES + 1))
    finally:
        os.close(descriptor)


class BucketPlans:
    """Reads plans from a bucket."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self.name = f"{_S3}{bucket}"

    def versions(self) -> dict[PlanKey, str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{PLANS_PREFIX}/"
        )
        found = {}
        with _told(self.name):
            for page in pages:
                for item in page.get("Contents", ()):
                    _, _, rest = item["Key"].partition("/")
                    node, _, name = rest.partition("/")
                    match = _FILE.fullmatch(name)
                    if match and NODE_PATTERN.fullmatch(node):
                        found[PlanKey(node, int(match[1]))] = item["ETag"].strip('"')
        return found

    def read(self, keys: Iterable[PlanKey]) -> Iterator[Document]:
        with ThreadPoolExecutor(READERS) as readers:
            yield from (found for found in readers.map(self._read, keys) if found is not None)

    def _read(self, key: PlanKey) -> Document | None:
        with _told(self.place(key)):
            try:
                answer = self._client.get_object(
                    Bucket=self._bucket, Key=f"{PLANS_PREFIX}/{key.path}"
                )
            except self._client.exceptions.NoSuchKey:
                return None
            return key, answer["Body"].read(MAX_PLAN_BYTES + 1)

    def place(self, key: PlanKey) -> str:
        return f"{self.name}/{PLANS_PREFIX}/{key.path}"


class _told:  # noqa: N801
    """What S3 refuses in one sentence, with the place."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, BotoCoreError | ClientError):
            raise SourceError(f"{self._where}: {error}") from error


def find_sources(names: Iterable[str]) -> list[PlanSource]:
    """Find the sources that the command line's words name, each once: a folder, ``s3://bucket``, or
    a pattern of buckets as in ``s3://spreds-*plans-*``.

    Raises:
        SourceError: there is no such folder, no bucket has such a name, or S3 refuses.
    """
    found: dict[str, PlanSource] = {}
    for name in names:
        sources: list[PlanSource]
        if name.startswith(_S3):
            sources = list(_buckets(name))
        elif Path(name).is_dir():
            sources = [FolderPlans(Path(name))]
        else:
            raise SourceError(f"{name}: there is no such folder")
        found |= {source.name: source for source in sources}
    return list(found.values())


def _buckets(name: str) -> Iterator[PlanSource]:
    import boto3

    pattern = name.removeprefix(_S3).rstrip("/")
    with _told(name):
        client = boto3.client("s3")
        if not set(pattern) & set("*?["):
            yield BucketPlans(client, pattern)
            return
        buckets = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    chosen = sorted(fnmatch.filter(buckets, pattern))
    if not chosen:
        raise SourceError(f"{name}: none of the account's {len(buckets)} buckets has such a name")
    for bucket in chosen:
        yield BucketPlans(client, bucket)
