"""The solver behind HTTP: POST of an observation is answered with its plan.

``python -m workloads.experiment.papers.placement.solver_service`` prints its port.
"""

from __future__ import annotations

import http.client
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan
from workloads.running_program import running_program

HOST = "127.0.0.1"
LIMIT_SECONDS = 60.0


class Service(NamedTuple):
    """A solver in a process of its own."""

    port: int
    process_id: int


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet, where they fit

    def do_POST(self) -> None:
        document = planned(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", str(len(document)))
        self.end_headers()
        self.wfile.write(document)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def planned(observation: bytes) -> bytes:
    """The plan's document for an observation's, as the function makes it."""
    found = Observation.loads(observation, "placement")
    return make_plan(found, now_seconds=found.made_at_seconds + 1).dumps()


def asked(port: int, observation: bytes) -> bytes:
    """The plan from a service, over a new connection: cycles are minutes apart.

    Raises:
        OSError: no answer.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=LIMIT_SECONDS)
    try:
        connection.request("POST", "/plan", observation)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"the solver's service says {answer.status}")
        return answer.read()
    finally:
        connection.close()


@contextmanager
def running_service() -> Iterator[Service]:
    """Start one and end it.

    Raises:
        RuntimeError: it did not start.
    """
    with tempfile.TemporaryDirectory(prefix="spreds-solver-") as folder:
        log = Path(folder) / "log"
        command = [__name__]
        with running_program(command, log, signal.SIGTERM, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"the solver's service did not start: {log.read_text()[-500:]}")
            yield Service(int(port), process.pid)


if __name__ == "__main__":
    with HTTPServer((HOST, 0), _Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
