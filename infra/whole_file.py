"""Replaces a file in one step, so that nobody reads half of it and a failure leaves the old one."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """The file keeps its owner and group, and who may read and write it. Raises OSError."""
    written, found = path.with_name(f".{path.name}.new"), path.stat()
    written.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            os.fchown(file.fileno(), found.st_uid, found.st_gid)
            os.fchmod(file.fileno(), found.st_mode & 0o7777)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
