"""Reads one request as its bytes come in: read, admitted, complete. Knows no socket.

Reads a request strictly: what two readers could understand differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from solver_lambda.http.message import Answer, Peer, RefusedError, Request, malformed
from solver_lambda.http.router import Call, Lane, Router

MOST_HEAD_BYTES = 16 * 1024
MOST_HEADERS = 64
# No length that is taken has so many digits.
_MOST_DIGITS, _TOO_LONG = 9, 10**9
_END = b"\r\n\r\n"
_LONE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_LINE = re.compile(r"([A-Z]{1,16}) ([!-~]+) HTTP/1\.[01]")
# A path of this server's own: neither another server's address, nor a part of a page.
_TARGET = re.compile(r"/[!\"$-~]*")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[!-~\x80-\xff][\t -~\x80-\xff]*)?)")
_HOST = re.compile(r"[\w.:\[\]-]*", re.ASCII)
# A second one of these could mean another thing.
_ONCE = ("host", "content-length", "content-type", "authorization")


def head_of(buffer: bytes | bytearray, searched_bytes: int = 0) -> int | None:
    """Return the bytes of the head, with the empty line; ``None``: it is not all there. So many
    bytes were searched before: who sends one at a time costs no more than who sends all at once.

    Raises:
        RefusedError: it has too many, or a line that does not end as lines do.
    """
    start = max(0, searched_bytes - len(_END))
    end = buffer.find(_END, start, MOST_HEAD_BYTES)
    if _LONE.search(buffer, start, MOST_HEAD_BYTES if end < 0 else end):
        raise malformed("lines must end with CR LF, and have neither of them within")
    if end >= 0:
        return end + len(_END)
    if len(buffer) >= MOST_HEAD_BYTES:
        raise RefusedError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            "head",
            f"the request line and the headers may have {MOST_HEAD_BYTES} bytes",
        )
    return None


def read_request(head: bytes | bytearray, peer: Peer) -> Request:
    """Return the request of a head (see ``head_of``), yet without its body. Raises RefusedError."""
    first, *lines = bytes(head).decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise malformed("the first line must be METHOD PATH HTTP/1.1")
    method, target = line.groups()
    if not _TARGET.fullmatch(target):
        raise malformed("the address must be a path in ASCII that begins with '/', without '#'")
    path, _, query = target.partition("?")
    headers = _headers(lines)
    if "transfer-encoding" in headers:
        raise RefusedError(
            HTTPStatus.NOT_IMPLEMENTED, "encoding", "a body must have a Content-Length instead"
        )
    return Request(method, path, query, headers, peer, _length(headers))


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS:
        raise RefusedError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            "head",
            f"a request may have {MOST_HEADERS} headers",
        )
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise malformed("a header must be NAME: VALUE, on one line")
        name, value = found[1].lower(), found[2].rstrip(" \t")
        if name in headers and name in _ONCE:
            raise malformed(f"the header {name} may stand there once")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if not _HOST.fullmatch(headers.get("host", "")):
        raise malformed("the Host header must be a name or an address, with a port or without")
    return headers


def _length(headers: dict[str, str]) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RefusedError(
            HTTPStatus.LENGTH_REQUIRED, "length", "Content-Length is missing or no number"
        )
    # Python makes no number of thousands of digits.
    return int(text) if len(text) <= _MOST_DIGITS else _TOO_LONG


_MOST_SHOWN = 100


class Incoming:
    """Takes the bytes of one connection, in pieces of any length.

    Attributes:
        shown: the method and the path, for the log.
    """

    def __init__(self, router: Router, peer: Peer) -> None:
        self._router = router
        self._peer = peer
        self._buffer = bytearray()
        # It is set once the head is there and the guard has let it pass.
        self._call: Call | None = None
        self._is_head = False
        self.shown = "a connection"

    @property
    def has_head(self) -> bool:
        """Whether the head was there, and its guard let it pass."""
        return self._call is not None

    @property
    def held_bytes(self) -> int:
        """Return how much memory the request holds."""
        return len(self._buffer)

    def feed(self, data: bytes) -> bool:
        """Whether the request is complete now; what comes after it is left alone.

        Raises:
            RefusedError: it is not taken, and more of it need not come.
        """
        searched_bytes = len(self._buffer)
        self._buffer += data
        if self._call is None:
            end = head_of(self._buffer, searched_bytes)
            if end is None:
                return False
            request = read_request(self._buffer[:end], self._peer)
            del self._buffer[:end]
            self._is_head = request.method == "HEAD"
            self.shown = f"{request.method} {request.path[:_MOST_SHOWN]}"
            self._call = self._router.admit(request)
        return len(self._buffer) >= (self._call.request.length or 0)

    def end(self) -> RefusedError | None:
        """Return what the client is told, if anything: it sends no more, though the request is not
        complete."""
        if self._call is None and not self._buffer:
            return None
        return RefusedError(HTTPStatus.BAD_REQUEST, "truncated", "the request is incomplete")

    def late(self) -> RefusedError | None:
        """Return what the client is told, if anything, when the request's time is over."""
        if self._call is None and not self._buffer:
            return None
        return RefusedError(
            HTTPStatus.REQUEST_TIMEOUT, "slow", "the request was not complete in time"
        )

    @property
    def lane(self) -> Lane | None:
        """Return the lane of the complete request; ``None``: it is answered at once."""
        assert self._call is not None
        return self._call.lane

    def complete(self) -> Callable[[], Answer]:
        """Makes the answer to the complete request, which is no longer held here."""
        assert self._call is not None
        body = bytes(self._buffer[: self._call.request.length or 0])
        self.drop()
        return partial(self._call.answer, body)

    def drop(self) -> None:
        """Hold nothing any more."""
        self._buffer = bytearray()

    def text_of(self, answer: Answer) -> list[memoryview]:
        """Return the bytes to send; the body of an answer is shared, not copied."""
        head = memoryview(answer.head())
        return [head] if self._is_head else [head, memoryview(answer.body)]
