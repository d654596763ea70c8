"""Only who runs the emulator, or root, is served: it runs whatever code it is given.

His browser, and programs of his that a stranger sends elsewhere, are not he: what changes something
must be signed, as AWS clients do, and for this machine. Neither a page nor a redirect can do that.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

Message = dict[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Any
]
HEALTH_PATH = "/_ministack/health"
_CERTIFICATES = "/SimpleNotificationService-"
_NAMES = (b"127.0.0.1", b"localhost")
_TIME_WAIT = "06"
_MAPPED = "0000000000000000FFFF0000"


def for_own_user(app: App) -> App:
    """An ASGI application that refuses connections of other users of this machine."""

    async def guarded(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif not is_own(scope["client"], scope["server"]):
            await _refuse(send, b"this emulator is another user's\n")
        elif not is_meant(scope):
            await _refuse(send, b"sign it, as AWS clients do, and send it to 127.0.0.1\n")
        else:
            await app(scope, receive, send)

    return guarded


async def _refuse(send: Callable[[Message], Awaitable[None]], words: bytes) -> None:
    await send({"type": "http.response.start", "status": 403, "headers": []})
    await send({"type": "http.response.body", "body": words})


def is_meant(scope: Message) -> bool:
    """Whether a request for a name of this machine is signed, or one that nobody signs."""
    headers = dict(scope["headers"])
    # A page that somebody served here before has this origin, and may sign what it likes.
    is_a_pages = b"origin" in headers or b"sec-fetch-site" in headers
    if is_a_pages or headers.get(b"host", b"").partition(b":")[0] not in _NAMES:
        return False
    if b"authorization" in headers:
        return True
    if scope["method"] != "GET":
        return False
    action = parse_qs(scope["query_string"].decode("latin-1")).get("Action", [])
    is_plain = scope["path"] == HEALTH_PATH or scope["path"].startswith(_CERTIFICATES)
    return action == ["ConfirmSubscription"] or (is_plain and not action)


def is_own(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection's other end is a socket of ours or of root, by the kernel's table. Of
    several with the same addresses all have to be; an end without a process is nobody's."""
    places = [_place(*client), _place(*server)]
    ends = []
    for path in filter(Path.exists, (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))):
        with path.open() as lines:
            ends += [
                (fields[7], fields[9])
                for fields in map(str.split, lines)
                if [field.removeprefix(_MAPPED) for field in fields[1:3]] == places
                and fields[3] != _TIME_WAIT
            ]
    users = {"0", str(os.geteuid())}
    return bool(ends) and all(user in users and inode != "0" for user, inode in ends)


def _place(host: str, port: int) -> str:
    """Format an address as the table has it."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
