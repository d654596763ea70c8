"""Takes notifications that SNS POSTs to an address of the node."""

from __future__ import annotations

import errno
import logging
import socket
import threading
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

log = logging.getLogger(__name__)

LIMITS = Limits(connections=64)
LOOK_SECONDS = 5.0
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
    """Serves HTTP in threads of its own. It binds at once, unless ``heir_of``, whose place it will
    take, listens at the same address: then it listens with it until that is closed. An address that
    somebody else has is a problem, and is tried again.

    Raises:
        OSError: the address can never be bound.
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
        self._metrics = metrics
        self._listening: list[socket.socket] = []
        if heir_of is not None and heir_of._listen == listen:
            self._listening = [one.dup() for one in heir_of._listening]
        self._server: HttpServer | None = None
        self._problem: str | None = None
        self._lock, self._closing = threading.Lock(), threading.Event()
        failure = self._bind()
        if failure is not None and failure.errno != errno.EADDRINUSE:
            raise failure

    def _bind(self) -> OSError | None:
        """Return why it cannot be bound now."""
        try:
            self._listening = self._listening or listen_at(*self._listen)
        except OSError as error:
            self._metrics.listeners_not_bound.labels("controller.listen").inc()
            why = f"controller.listen: {error.strerror}, so no notification comes"
            self._problem = f"{why}; it is tried again"
            log.warning("%s", self._problem)
            return error
        self._problem = None
        self.port = int(self._listening[0].getsockname()[1])
        journal = HttpJournal(self._metrics.notifications_refused, "notification")
        router = delivery_router(self._inbox)
        self._server = HttpServer(self._listening, router, LIMITS, journal, "sns")
        return None

    def start(self) -> None:
        if self._server is not None:
            self._server.start()
        else:
            threading.Thread(target=self._bind_later, name="sns-bind", daemon=True).start()

    def _bind_later(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            with self._lock:
                if not self._closing.is_set() and self._bind() is None:
                    log.info("controller.listen: notifications are taken now")
                    assert self._server is not None
                    self._server.start()
                    return

    def expect(self, key: str) -> None:
        """Do nothing: plans are posted to us."""

    def problem(self) -> str | None:
        return self._problem or self._inbox.problem()

    def close(self) -> None:
        """Take no more messages; those that are under way are still taken."""
        self._closing.set()
        with self._lock:
            if self._server is not None:
                self._server.close()
