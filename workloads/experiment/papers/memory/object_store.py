"""Two buckets for one function: as much of S3 as it uses, and as long as S3 takes to answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


class _Store(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, objects: dict[str, bytes], wait_seconds: float) -> None:
        super().__init__((HOST, 0), _Request)
        self.objects = objects
        self.wait_seconds = wait_seconds


class _Request(BaseHTTPRequestHandler):
    server: _Store

    def do_GET(self) -> None:
        time.sleep(self.server.wait_seconds)
        content = self.server.objects.get(self.path)
        self._answer(404 if content is None else 200, content or b"")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(self.server.wait_seconds)
        if self.path in self.server.objects:
            self._answer(412, b"")
            return
        self.server.objects[self.path] = content
        self._answer(200, b"")

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Not onto the terminal."""


@contextmanager
def object_store(objects: dict[str, bytes], wait_seconds: float) -> Iterator[Mapping[str, str]]:
    """Serve ``objects``, by their paths, which gets what is put; each answer takes so long.

    Gives the environment that lets the function find it.
    """
    store = _Store(objects, wait_seconds)
    thread = threading.Thread(target=store.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield {
            "AWS_ENDPOINT_URL_S3": f"http://{HOST}:{store.server_address[1]}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        }
    finally:
        store.shutdown()
        store.server_close()
        thread.join()
