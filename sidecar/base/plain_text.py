"""Makes peers' text plain for terminals and logs: what is no character to print is shown as an
escape.

A server, a document or a file's name may hold what a terminal obeys (``ESC [2J``), or what turns
the direction of writing. Or it may hold a line's end that makes a second entry of a log.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any


def plain(text: str, keep: str = "") -> str:
    """Return the text with each character that cannot be printed as an escape, but those to
    ``keep``."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else ascii(one)[1:-1] for one in text)


def quoted(text: str) -> str:
    """Return somebody's words so that it is seen where they end."""
    inner = text.replace('"', "'")
    return f'"{inner}"'


class _PlainStream:
    """Writes only what can be printed, and the ends of lines."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._stream.write(plain(text, keep="\n\t"))
        return len(text)


class PlainOutput:
    """Makes all plain that is printed meanwhile to stdout and stderr; a context manager."""

    def __enter__(self) -> None:
        self._streams = sys.stdout, sys.stderr
        for stream in self._streams:
            if hasattr(stream, "reconfigure"):  # what it cannot show is shown as an escape, too
                stream.reconfigure(errors="backslashreplace")
        plain_streams: Any = map(_PlainStream, self._streams)
        sys.stdout, sys.stderr = plain_streams

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._streams
