"""Where the plans of a fleet lie: folders, and buckets of one or several stacks."""

from __future__ import annotations

import fnmatch
import os
import re
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
    """Which plan."""

    node: str
    cycle: int

    @property
    def path(self) -> str:
        """Below the folder of all nodes."""
        return f"{self.node}/{self.cycle:012d}.json"


class PlanSource(Protocol):
    """``name`` tells one from another. Both methods raise SourceError."""

    name: str

    def keys(self) -> set[PlanKey]:
        """All plans there; whatever is not named like one is passed over."""

    def read(self, keys: Iterable[PlanKey]) -> Iterator[tuple[PlanKey, bytes]]:
        """Their documents, cut above the longest that a plan may be."""


class FolderPlans:
    """A folder with one folder for each node, or with those in its ``plans/``."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        inner = folder / PLANS_PREFIX
        self._folder = inner if inner.is_dir() else folder
        self.name = str(self._folder)

    def keys(self) -> set[PlanKey]:
        try:
            nodes = [
                entry.name
                for entry in os.scandir(self._folder)
                if NODE_PATTERN.fullmatch(entry.name) and entry.is_dir()
            ]
            return {
                PlanKey(node, int(match[1]))
                for node in nodes
                for name in os.listdir(self._folder / node)
                if (match := _FILE.fullmatch(name))
            }
        except OSError as error:
            raise SourceError(f"{self._folder}: {error.strerror or error}") from error

    def read(self, keys: Iterable[PlanKey]) -> Iterator[tuple[PlanKey, bytes]]:
        for key in keys:
            path = f"{self.name}/{key.path}"
            try:
                # A file object would take half as long again, for each of very many.
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    text = os.read(descriptor, MAX_PLAN_BYTES + 1)
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise SourceError(f"{path}: {error.strerror or error}") from error
            yield key, text


class BucketPlans:
    """A bucket of plans."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self.name = f"{_S3}{bucket}"

    def keys(self) -> set[PlanKey]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{PLANS_PREFIX}/"
        )
        found = set()
        with _told(self.name):
            for page in pages:
                for item in page.get("Contents", ()):
                    _, _, rest = item["Key"].partition("/")
                    node, _, name = rest.partition("/")
                    match = _FILE.fullmatch(name)
                    if match and NODE_PATTERN.fullmatch(node):
                        found.add(PlanKey(node, int(match[1])))
        return found

    def read(self, keys: Iterable[PlanKey]) -> Iterator[tuple[PlanKey, bytes]]:
        with ThreadPoolExecutor(READERS) as readers:
            yield from readers.map(self._read, keys)

    def _read(self, key: PlanKey) -> tuple[PlanKey, bytes]:
        with _told(f"{self.name}/{PLANS_PREFIX}/{key.path}"):
            answer = self._client.get_object(Bucket=self._bucket, Key=f"{PLANS_PREFIX}/{key.path}")
            return key, answer["Body"].read(MAX_PLAN_BYTES + 1)


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
    """Of the command line's words: a folder, ``s3://bucket``, or a pattern of buckets as in
    ``s3://spreds-*plans-*``. Each source once.

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
