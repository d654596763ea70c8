"""A file with a secret, as an operator makes it."""

from __future__ import annotations

from pathlib import Path


def write_secret(path: Path, text: str) -> Path:
    """Write it so that nobody else may read it; the path."""
    path.touch(0o600)
    path.chmod(0o600)
    path.write_text(text, "utf-8")
    return path
