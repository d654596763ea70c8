"""Answers HTTP on the loopback address, as its caller likes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Question(NamedTuple):
    """Holds a whole request."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]


class Reply(NamedTuple):
    """What is answered; its length is added."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class LoopbackServer:
    """Answers requests by a function; a context manager."""

    def __init__(self, answer: Callable[[Question], Reply]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                reply = answer(Question(self.command, self.path, body, dict(self.headers)))
                self.send_response(reply.status)
                headers = {**reply.headers, "Content-Length": str(len(reply.body))}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_POST = do_PUT = do_GET  # noqa: N815 - as the library calls them

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
