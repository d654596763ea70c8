"""What goes wrong with a server that is asked for something."""

from __future__ import annotations

from sidecar.base.plain_text import plain

MOST_WORDS = 1000  # of an error


class ServerError(Exception):
    """Its words may be the server's: they are shortened, and made printable."""

    def __init__(self, words: str) -> None:
        super().__init__(plain(words[:MOST_WORDS])[:MOST_WORDS])


class ServerDownError(ServerError):
    """The server did not answer in time, or at all; what was asked of it may still happen."""


class ServerSilentError(ServerDownError):
    """It may still be there, with the size that it had: it did not answer in time."""


class ServerRefusedError(ServerError):
    """The server answered that it will not do it."""


class WrongPasswordError(ServerRefusedError):
    """It does not take the user's name or password; the message names file and key."""


class MissingRightError(ServerRefusedError):
    """Its user may not run the command."""
