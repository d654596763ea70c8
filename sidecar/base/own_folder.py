"""A folder of the sidecar's own, made with modes that no umask decides."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def make_own_folder(folder: Path) -> None:
    """Make it if it is missing, for its owner alone, and what is missing above it so that others
    may pass. Raises OSError."""
    for parent in reversed(folder.parents):
        _make(parent, 0o755)
    _make(folder, 0o700)


def _make(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)  # never more, not for a moment
        folder.chmod(mode)
