"""Keeps the folder of an embedded controller small: old observations and plans go."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from sidecar.config.controller_config import KeptDocuments
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX

# What the controller names its documents; teams' settings lie elsewhere and have other names.
_DOCUMENT = re.compile(r"\d{12}\.json")


def prune(folder: Path, node: str, kept: KeptDocuments, now_seconds: float | None = None) -> int:
    """Remove observations and plans of a node that are too old or too many; how many.

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
    # Not what somebody else named like one and cannot be removed so, such as a folder.
    found = [
        (path, made.st_mtime) for path in paths if stat.S_ISREG((made := path.lstat()).st_mode)
    ]
    for place, (path, made_at) in enumerate(found):
        if place < len(found) - number or made_at < oldest_seconds:
            yield path
