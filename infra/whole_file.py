"""Replaces a file in one step, so that nobody reads half of it and a failure leaves the old one."""

from __future__ import annotations

from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """The file keeps who may read and write it. Raises OSError."""
    written = path.with_name(f".{path.name}.new")
    written.write_text(text)
    written.chmod(path.stat().st_mode)
    written.replace(path)
