"""A consumer that is a process of its own: it can be stopped, killed, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.redis_patch.sampled_server import MODULUS, SALT, SampledServer
from tests.redis_patch.wire_twin import Batch, unpack_all
from workloads.local_node import wait_until

PROGRAM = """
import sys, zmq
socket = zmq.Context().socket(zmq.PULL)
socket.bind(sys.argv[1])
with open(sys.argv[2], "ab", buffering=0) as received:
    while True:
        received.write(socket.recv())
"""


class Consumer:
    """Pulls all that comes to ``endpoint``, and appends it to the file ``path`` at once.

    A context manager: its end is the process' end.

    Attributes:
        dropped_before: so many batches its server had dropped when the first one came.
    """

    def __init__(self, endpoint: str, path: Path) -> None:
        self.path = path
        self.dropped_before = 0
        self._rest = b""
        self._read_bytes = 0
        self._batches: list[Batch] = []
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, endpoint, path])

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def stall(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it by ``kill -9``. What it had written of a message is lost with it."""
        self.process.kill()
        self.process.wait()
        self.batches()
        if self._rest:
            self._read_bytes -= len(self._rest)
            os.truncate(self.path, self._read_bytes)
            self._rest = b""

    def batches(self) -> list[Batch]:
        """Return what has come so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                new = file.read()
            self._read_bytes += len(new)
            batches, self._rest = unpack_all(self._rest + new)
            self._batches += batches
        return self._batches

    def records(self) -> int:
        return sum(len(batch.records) for batch in self.batches())


def consumer_of(server: SampledServer) -> Consumer:
    """A process in the place of the listener of ``server``; all keys are sampled for it."""
    server.stop_listening()
    consumer = Consumer(server.endpoint, server.folder / "received")
    server.set(threshold=MODULUS, modulus=MODULUS, salt=SALT, endpoint=server.endpoint)
    wait_for_batches(server, consumer)
    return consumer


def wait_for_batches(server: SampledServer, consumer: Consumer) -> None:
    """Wait until a batch comes that is newer than all that the consumer has."""
    before = len(consumer.batches())

    def another() -> bool:
        server.set(salt=SALT + 1)  # a change asks for a header at once
        server.set(salt=SALT)
        return len(consumer.batches()) > before

    wait_until(another, server.counters)
    if not before:
        consumer.dropped_before = server.counters()["batches_dropped"]
