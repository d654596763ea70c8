"""Delivery of notifications by SNS' POST to an address of the node."""

from __future__ import annotations

import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sidecar.base.metrics import Metrics
from sidecar.delivery.notification import MAX_MESSAGE_BYTES
from sidecar.delivery.plan_inbox import PlanInbox, Verdict

log = logging.getLogger(__name__)

CLIENT_SECONDS = 10.0
# SNS tries again after a 5xx, and not after a 4xx.
_STATUS = {
    Verdict.TAKEN: HTTPStatus.OK,
    Verdict.REFUSED: HTTPStatus.FORBIDDEN,
    Verdict.LATER: HTTPStatus.SERVICE_UNAVAILABLE,
}


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
        class Handler(DeliveryHandler):
            pass

        Handler.inbox = inbox
        Handler.metrics = metrics
        self._listen = listen
        if heir_of is not None and heir_of._listen == listen:
            self._server = ThreadingHTTPServer(listen, Handler, bind_and_activate=False)
            self._server.socket.close()
            self._server.socket = heir_of._server.socket.dup()
            self._server.server_address = self._server.socket.getsockname()
        else:
            self._server = ThreadingHTTPServer(listen, Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="http"
        )

    @property
    def port(self) -> int:
        """The port in use, also where 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def expect(self, key: str) -> None:
        """Nothing to do: plans are posted to us."""

    def close(self) -> None:
        """Take no more messages and wait for the server's thread."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class DeliveryHandler(BaseHTTPRequestHandler):
    """One request of SNS, or of whoever reaches the address."""

    inbox: PlanInbox
    metrics: Metrics
    timeout = CLIENT_SECONDS
    server_version = "spreds"
    sys_version = ""

    def do_POST(self) -> None:
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "length", "Content-Length is missing")
            return
        # Python makes no number of thousands of digits.
        length = int(text) if len(text) < 10 else 10**9
        if length > MAX_MESSAGE_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "oversized",
                f"{text[:10]} bytes are too many, at most {MAX_MESSAGE_BYTES}",
            )
            return
        try:
            body = self.rfile.read(length)
        except OSError:
            body = b""
        if len(body) < length:
            self._refuse(HTTPStatus.BAD_REQUEST, "truncated", "the body is incomplete")
            return
        verdict = self.inbox.take(body)
        self._answer(_STATUS[verdict], verdict.value)

    def _refuse(self, status: HTTPStatus, code: str, why: str) -> None:
        self.metrics.notifications_refused.labels(code).inc()
        log.warning("notification refused: %s: %s", code, why)
        self._answer(status, why)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = f"{text}\n".encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        log.debug("http: %s", args)
