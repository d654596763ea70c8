"""Delivery of notifications by SNS' POST to an address of the node."""

from __future__ import annotations

import socket
from http import HTTPStatus

from sidecar.base.http_journal import HttpJournal
from sidecar.base.metrics import Metrics
from sidecar.delivery.notification import MAX_MESSAGE_BYTES
from sidecar.delivery.plan_inbox import PlanInbox, Verdict
from solver_lambda.http.connection import Limits
from solver_lambda.http.guards import Anybody, anybody
from solver_lambda.http.listening import listen_at
from solver_lambda.http.message import Answer, Request
from solver_lambda.http.router import ANY_PATH, Lane, Route, Router
from solver_lambda.http.server import HttpServer

LIMITS = Limits(connections=64)
# SNS tries again after a 5xx, and not after a 4xx.
_STATUS = {
    Verdict.TAKEN: HTTPStatus.OK,
    Verdict.REFUSED: HTTPStatus.FORBIDDEN,
    Verdict.LATER: HTTPStatus.SERVICE_UNAVAILABLE,
}


def delivery_router(inbox: PlanInbox) -> Router:
    """Anybody may post at any path: a message is believed for its signature, which the inbox
    checks."""

    def take(request: Request, _: Anybody) -> Answer:
        verdict = inbox.take(request.body, request.peer.party)
        text = f"{verdict.value}\n".encode()
        return Answer(_STATUS[verdict], text, "text/plain; charset=utf-8")

    lane = Lane(most=8, most_waiting=32, most_of_one=4, most_waiting_of_one=8)
    return Router([Route("POST", ANY_PATH, anybody, take, lane, MAX_MESSAGE_BYTES)])


class HttpDelivery:
    """An HTTP server in threads of its own. It binds at once, unless ``heir_of``, whose place it
    will take, listens at the same address: then it listens with it until that is closed.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        inbox: PlanInbox,
        metrics: Metrics,
        heir_of: HttpDelivery | None = None,
    ) -> None:
        self._listen = listen
        self._inbox = inbox
        self._listening: list[socket.socket]
        if heir_of is not None and heir_of._listen == listen:
            self._listening = [one.dup() for one in heir_of._listening]
        else:
            self._listening = listen_at(*listen)
        self.port = int(self._listening[0].getsockname()[1])
        journal = HttpJournal(metrics.notifications_refused, "notification")
        self._server = HttpServer(self._listening, delivery_router(inbox), LIMITS, journal, "sns")

    def start(self) -> None:
        self._server.start()

    def expect(self, key: str) -> None:
        """Nothing to do: plans are posted to us."""

    def problem(self) -> str | None:
        return self._inbox.problem()

    def close(self) -> None:
        """Take no more messages; those that are under way are still taken."""
        self._server.close()
