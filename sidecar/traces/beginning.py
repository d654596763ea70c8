"""Holds what tells the format of a file: its name and its first bytes."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sidecar.traces.file import TracePath

# What a format says to the first bytes: not its own; like its own, but those are called by its
# name; may be; has what only its own have.
NO, UNNAMED, MAYBE, YES = range(4)
_MOST_BYTES, _MOST_LINES = 1 << 16, 20
_IN_TEXT = frozenset(b"\t\r\x1b")


class Beginning:
    """Holds what tells the format of a file.

    Attributes:
        name: of the file, without folders, in small letters.
        first: bytes, of the decompressed contents.
        lines: the first ones, without their ends, none of them blank; none if it is no text.
    """

    def __init__(self, path: TracePath, first: bytes) -> None:
        self.name = os.path.basename(path).lower()
        self.first = first
        lines = first[:_MOST_BYTES].split(b"\n")
        if len(lines) > 1 or len(first) > _MOST_BYTES:
            lines.pop()  # it may be cut off
        lines = [line.rstrip(b"\r") for line in lines[:_MOST_LINES] if line.strip()]
        is_text = lines and all(byte >= 32 or byte in _IN_TEXT for byte in lines[0])
        self.lines = lines if is_text else []

    def is_named(self, *suffixes: str) -> bool:
        """Whether one of the suffixes is in the name."""
        return any(suffix in self.name.split(".")[1:] for suffix in suffixes)
