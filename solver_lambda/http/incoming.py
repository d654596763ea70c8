"""One request as its bytes come in: read, admitted, complete. Knows no socket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from solver_lambda.http.message import Answer, Peer, RefusedError
from solver_lambda.http.request_reader import head_of, read_request
from solver_lambda.http.router import Call, Lane, Router

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
        # Once the head is there, and the guard has let it pass.
        self._call: Call | None = None
        self._is_head = False
        self.shown = "a connection"

    @property
    def has_head(self) -> bool:
        """Whether the head was there, and its guard let it pass."""
        return self._call is not None

    @property
    def held_bytes(self) -> int:
        """Of memory."""
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
        """The client sends no more, though it is not complete: what it is told, if anything."""
        if self._call is None and not self._buffer:
            return None
        return RefusedError(HTTPStatus.BAD_REQUEST, "truncated", "the request is incomplete")

    def late(self) -> RefusedError | None:
        """The same, when its time is over."""
        if self._call is None and not self._buffer:
            return None
        return RefusedError(
            HTTPStatus.REQUEST_TIMEOUT, "slow", "the request was not complete in time"
        )

    @property
    def lane(self) -> Lane | None:
        """Of the complete request; ``None``: it is answered at once."""
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
        """The bytes to send; the body of an answer is shared, not copied."""
        head = memoryview(answer.head())
        return [head] if self._is_head else [head, memoryview(answer.body)]
