"""Reads a request strictly: what two readers could understand differently is refused."""

from __future__ import annotations

import re
from http import HTTPStatus

from solver_lambda.http.message import Peer, RefusedError, Request, malformed

MOST_HEAD_BYTES = 16 * 1024
MOST_HEADERS = 64
# More digits than any length has that is taken.
_MOST_DIGITS, _TOO_LONG = 9, 10**9
_END = b"\r\n\r\n"
_LONE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_LINE = re.compile(r"([A-Z]{1,16}) ([!-~]+) HTTP/1\.[01]")
# A path of this server's own: neither another server's address, nor a part of a page.
_TARGET = re.compile(r"/[!\"$-~]*")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[!-~\x80-\xff][\t -~\x80-\xff]*)?)")
_HOST = re.compile(r"[\w.:\[\]-]*", re.ASCII)
# Of these a second one could mean another thing.
_ONCE = ("host", "content-length", "content-type", "authorization")


def head_of(buffer: bytes | bytearray, searched_bytes: int = 0) -> int | None:
    """Bytes of the head, with the empty line; ``None``: it is not all there. So many bytes were
    searched before: who sends one at a time costs no more than who sends all at once.

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
    """The request of a head (see ``head_of``), yet without its body. Raises RefusedError."""
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
