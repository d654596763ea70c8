"""HTTP servers of the attacker's: one in the solver's place, on the loopback address."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class QuietHandler(BaseHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


class LoopbackServer:
    """Serves requests by a handler; a context manager."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# What it is asked, and what came with it: the answer's body, and more headers.
Answer = Callable[[bytes, dict[str, str]], tuple[bytes, dict[str, str]]]


class HostileSolver(LoopbackServer):
    """Listens on the loopback address; a context manager.

    Attributes:
        asked: how often.
        answer: makes the answer.
    """

    def __init__(self, answer: Answer) -> None:
        self.asked = 0
        self.answer = answer
        solver = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                solver.asked += 1
                question = self.rfile.read(int(self.headers["Content-Length"]))
                body, headers = solver.answer(question, dict(self.headers))
                self.send_response(200)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


def forged_plan(question: bytes, reason: str, **sizes_bytes: int) -> bytes:
    """A plan that answers the observation in every formal point; servers that are not named keep
    their sizes."""
    asked: dict[str, Any] = json.loads(question)
    plan = {key: asked[key] for key in ("version", "node", "cycle", "budget_bytes")}
    plan |= {
        "kind": "spreds.plan",
        "observation_made_at_seconds": asked["made_at_seconds"],
        "made_at_seconds": time.time(),
        "method": "forged",
        "decision": "apply",
        "reason": reason,
        "servers": [
            {
                "name": server["name"],
                "maxmemory_before_bytes": server["maxmemory_bytes"],
                "maxmemory_bytes": sizes_bytes.get(server["name"], server["maxmemory_bytes"]),
                "reason": "forged",
            }
            for server in asked["servers"]
        ],
    }
    return json.dumps(plan).encode()
