"""Says which handler answers a request, and which guard stands before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from solver_lambda.http.guards import Admitted
from solver_lambda.http.message import Answer, RefusedError, Request

ANY_PATH = "*"
_MOST_SHOWN = 100
Proof = TypeVar("Proof", bound=Admitted)


@dataclass(frozen=True, eq=False)
class Lane:
    """Bounds requests of one kind, so that they never hold up those of another.

    Attributes:
        most: answered at a time.
        most_waiting: that wait for it; one more is told to come back.
        seconds: for which they wait.
        most_of_one: of one party (``Peer.party``), answered at a time; 0: all.
        most_waiting_of_one: of one party, that wait; 0: as many as are answered.
    """

    most: int
    most_waiting: int
    seconds: float = 5.0
    most_of_one: int = 0
    most_waiting_of_one: int = 0


@dataclass(frozen=True)
class Route(Generic[Proof]):
    """Joins a method and a path: what is done, and who may have it done.

    Attributes:
        guard: makes the proof that ``handle`` wants, from the head alone: who may not ask sends no
            body. Raises RefusedError.
        handle: the answer. Raises RefusedError.
        lane: ``None``: it is answered at once by the thread that has all sockets, so that nobody
            can crowd it out, and ``handle`` waits for nobody.
        most_body_bytes: 0: it takes no body.
        content_type: that the body must have; ``""``: any.
        charge: is asked last, before the request takes a place in its lane. Raises RefusedError:
            whoever asks has asked too often.
    """

    method: str
    path: str
    guard: Callable[[Request], Proof]
    handle: Callable[[Request, Proof], Answer]
    lane: Lane | None
    most_body_bytes: int = 0
    content_type: str = ""
    charge: Callable[[Proof], None] = lambda _: None

    def admit(self, request: Request) -> Call:
        """Admit a request. Raises RefusedError."""
        proof = self.guard(request)
        if request.length is None and self.most_body_bytes:
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "length", "Content-Length is missing")
        if (request.length or 0) > self.most_body_bytes:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "oversized",
                f"a body may have {self.most_body_bytes} bytes here",
            )
        if self.content_type and request.content_type != self.content_type:
            raise RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "content_type",
                f"Content-Type must be {self.content_type}",
            )
        self.charge(proof)
        return Call(
            request, self.lane, lambda body: self.handle(replace(request, body=body), proof)
        )


@dataclass(frozen=True)
class Call:
    """Holds a request that has passed its guard. ``answer`` takes its body, and raises
    RefusedError."""

    request: Request
    lane: Lane | None
    answer: Callable[[bytes], Answer]


class Router:
    """Holds the routes of a listener.

    Args:
        screen: sees each request first, whatever it asks for. Raises RefusedError.
    """

    def __init__(
        self, routes: Sequence[Route[Any]], screen: Callable[[Request], None] = lambda _: None
    ) -> None:
        self.routes = tuple(routes)
        self._screen = screen

    @property
    def lanes(self) -> set[Lane]:
        """Return the lanes of all routes."""
        return {route.lane for route in self.routes if route.lane is not None}

    def admit(self, request: Request) -> Call:
        """Find the route and pass its guard; a GET's answers HEAD as well. Raises RefusedError."""
        self._screen(request)
        path = request.path if any(r.path == request.path for r in self.routes) else ANY_PATH
        here = {route.method: route for route in self.routes if route.path == path}
        if not here:
            raise RefusedError(HTTPStatus.NOT_FOUND, "unknown_path", "there is no such page")
        route = here.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = [f"{method}, HEAD" if method == "GET" else method for method in here]
            allow = ", ".join(sorted(allowed))
            raise RefusedError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method",
                f"{request.path[:_MOST_SHOWN]} takes {allow}, not {request.method}",
                {"Allow": allow},
            )
        return route.admit(request)
