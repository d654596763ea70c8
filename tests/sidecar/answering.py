"""An HTTP server that says the same to everybody, as bytes."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def answering(answer: bytes, rest: bytes = b"") -> Iterator[str]:
    """A service that says this, and then ``rest`` again and again."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            try:
                self.wfile.write(answer)
                while rest:
                    self.wfile.write(rest)
                    ended.wait(0.001)
            except OSError:
                pass  # the sidecar has hung up

    ended = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/plans?x=1"
        finally:
            server.shutdown()
            thread.join()
