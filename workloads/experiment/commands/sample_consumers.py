"""Who listens to a server's samples: somebody who takes them, nobody, and somebody who stalls."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

import zmq

from sidecar.samples.batch import SampleError, decode_batch


class SampleConsumers:
    """Binds sockets in a folder. A context manager.

    Attributes:
        endpoints: to give to a server, of all three.
        batches: that came and are well-formed.
        faults: what was wrong with others.
    """

    def __init__(self, folder: Path) -> None:
        self.batches = 0
        self.faults: list[str] = []
        self.endpoints = [f"ipc://{folder}/{name}" for name in ("taken", "stalled", "nobody")]
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._taken = self._bind(self.endpoints[0])
        self._stalled = self._bind(self.endpoints[1], queue_messages=1)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._take, name="samples")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _bind(self, endpoint: str, queue_messages: int = 1000) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.PULL)
        socket.setsockopt(zmq.RCVHWM, queue_messages)
        socket.bind(endpoint)
        return socket

    def _take(self) -> None:
        while not self._ends.is_set():
            if not self._taken.poll(100):
                continue
            try:
                decode_batch(self._taken.recv())
                self.batches += 1
            except SampleError as error:
                self.faults.append(f"{error.reason}: {error}")
