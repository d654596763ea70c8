"""Names what goes wrong with a server that is asked for something."""

from __future__ import annotations

import redis

from sidecar.base.plain_text import plain

MOST_WORDS = 1000  # of an error
# Stands before what a server answered: never before words of ours.
ITS_WORDS = "it says: "


class ServerError(Exception):
    """Its words may be the server's: they are shortened, and made printable."""

    def __init__(self, words: str) -> None:
        super().__init__(plain(words[:MOST_WORDS])[:MOST_WORDS])


class ServerDownError(ServerError):
    """The server did not answer in time, or at all; what was asked of it may still happen."""


class ServerSilentError(ServerDownError):
    """It may still be there, with the size that it had: it did not answer in time."""


class NobodyListensError(ServerDownError):
    """Its process is gone, or has not begun to listen: nobody does, or a stranger."""


def down_error(error: Exception) -> type[ServerDownError]:
    """Return which of these an error of the client library or the system is."""
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return ServerSilentError
    # The library has words of its own for what the system said.
    said = (error, error.__cause__, error.__context__)
    is_nobody = any(isinstance(one, ConnectionRefusedError | FileNotFoundError) for one in said)
    return NobodyListensError if is_nobody else ServerDownError


class ServerRefusedError(ServerError):
    """The server answered that it will not do it."""


class WrongPasswordError(ServerRefusedError):
    """It does not take the user's name or password; the message names file and key."""


class MissingRightError(ServerRefusedError):
    """Its user may not run the command."""
