"""One connection: reads a request within bounds, checks who asks, writes the answer."""

from __future__ import annotations

import logging
import re
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from sidecar.base.log_setup import BOUNDED
from sidecar.base.metrics import Metrics
from sidecar.web.access import is_own_name, is_token
from sidecar.web.answer import Answer, RefusedError, json_answer
from sidecar.web.http_server import CLIENT_SECONDS
from sidecar.web.routes import MOST_BODY_BYTES, ORDERS_PATH, Request, Routes
from sidecar.web.unix_socket import peer_user

log = logging.getLogger(__name__)

# A longer body is not even read.
MOST_IGNORED_BYTES = 4 * MOST_BODY_BYTES
# A form on somebody else's page can post, but not JSON.
_NOT_JSON = RefusedError(
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", "Content-Type must be application/json"
)
# Guard and router read what stands here alike; nothing else is a target.
_ORIGIN_FORM = re.compile(r"/(?:[!-\"$-.0-~][!-\"$-~]*)?")
_NOT_ORIGIN_FORM = RefusedError(
    HTTPStatus.BAD_REQUEST, "malformed", "the address must be a path in ASCII, without '#'"
)
# Nobody else's page may read an answer, or show ours in a frame.
_ALWAYS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Handler(BaseHTTPRequestHandler):
    """Of any client; ``user`` says who may ask. Closes the connection after each answer."""

    routes: Routes
    metrics: Metrics
    timeout = CLIENT_SECONDS
    server_version = "spreds"
    sys_version = ""

    def user(self, path: str) -> str:
        """Who asks. Raises RefusedError: that one may not."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self._respond()

    def do_HEAD(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        try:
            if not _ORIGIN_FORM.fullmatch(self.path):
                raise _NOT_ORIGIN_FORM
            # Read before anything is refused: a client that is still sending misses the answer.
            body = self._body() if self.command == "POST" else b""
            user = self.user(self.path.partition("?")[0])
            if self.command == "POST" and self.headers.get_content_type() != "application/json":
                raise _NOT_JSON
            answer = self.routes.answer(Request(self.command, self.path, user, body))
        except RefusedError as error:
            self.metrics.requests_refused.labels(error.code).inc()
            log.info("request refused: %s", error, extra=BOUNDED)
            answer = error.answer
        except OSError:
            raise  # the client is gone
        except Exception:
            log.exception("a request could not be answered: %s %.200r", self.command, self.path)
            words = {"error": "the sidecar cannot answer this now; its log says why"}
            answer = json_answer(words, HTTPStatus.INTERNAL_SERVER_ERROR)
        self._write(answer)

    def _body(self) -> bytes:
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit():
            raise RefusedError(
                HTTPStatus.LENGTH_REQUIRED, "length", "Content-Length is missing or no number"
            )
        length = int(text) if len(text) < 10 else 10**9
        body = self.rfile.read(length) if length <= MOST_IGNORED_BYTES else b""
        if length > MOST_BODY_BYTES:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "oversized",
                f"a body may have {MOST_BODY_BYTES} bytes",
            )
        if len(body) < length:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "truncated", "the body is incomplete")
        return body

    def _write(self, answer: Answer) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in {**_ALWAYS, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, *args: object) -> None:
        log.debug("http: %s", args)


class UnixHandler(Handler):
    """Whoever could open the socket may do everything."""

    connection: socket.socket

    def user(self, path: str) -> str:  # noqa: ARG002
        return peer_user(self.connection)

    def address_string(self) -> str:
        return "unix"


class TcpHandler(Handler):
    """Anybody who reaches the port may read; orders need the token."""

    anywhere: bool
    token: str | None

    def user(self, path: str) -> str:
        host = self.headers.get("Host")
        if not is_own_name(host, anywhere=self.anywhere):
            raise RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "host",
                "the Host header must be localhost or the number of this machine's address",
            )
        address = f"the holder of the token at {self.client_address[0]}"
        if path != ORDERS_PATH:
            return address
        if self.token is None:
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                "no_token",
                "orders are not taken here: operators.token_file is not set, so use the commands",
            )
        if not is_token(self.headers.get("Authorization"), self.token):
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "token",
                "orders need the token of operators.token_file",
                {"WWW-Authenticate": "Bearer"},
            )
        return address
