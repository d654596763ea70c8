"""The sampler while commands run: its settings, right and wrong ones, and who takes its samples."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any, Self

import redis
import zmq

from sidecar.samples.batch import SampleError, decode_batch
from workloads.experiment.commands.tested_server import Make

_MODULUS = 1 << 24
_RATES = (
    (_MODULUS, _MODULUS),
    (_MODULUS, _MODULUS),
    (_MODULUS // 100, _MODULUS),
    (_MODULUS // 100, _MODULUS),
    (1 << 32, 1 << 32),
    (1, 1),
    (0, _MODULUS),
    (_MODULUS + 1, _MODULUS),
    (5, 12),
    (-1, 0),
)
_SALTS = ("0", "1", "18446744073709551615", "18446744073709551616", "abc", "", "7 ")
_SECRETS = ("ab" * 16, "00" * 16, "", "ab" * 15, "AB" * 16, "\x00" * 32, "x" * 4000)
_WRONG_ENDPOINTS = ("nonsense", "tcp://192.0.2.1:9", "tcp://127.0.0.1:x", "ipc://" + "x" * 200)


class Knobs:
    """Turns them, by a connection of its own.

    ``endpoints``: of those who listen; the first one takes what comes.
    """

    def __init__(self, client: Any, make: Make, endpoints: list[str], draw: random.Random) -> None:
        self._client = client
        self._make = make
        self._endpoints = endpoints
        self._draw = draw
        self.turned = 0

    def sample_everything(self) -> None:
        """To whom takes it."""
        self._set(threshold=_MODULUS, modulus=_MODULUS, endpoint=self._endpoints[0])

    def turn(self) -> str:
        """One of them, or several at once, or the module; what was done, for people."""
        self.turned += 1
        if self._make.way == "module" and self._draw.random() < 0.1:
            return self._load_anew()
        knobs: dict[str, object] = {}
        if self._draw.random() < 0.6:
            knobs["threshold"], knobs["modulus"] = self._draw.choice(_RATES)
        if self._draw.random() < 0.5:
            endpoints = [*self._endpoints * 3, "", *_WRONG_ENDPOINTS]
            knobs["endpoint"] = self._draw.choice(endpoints)
        if self._draw.random() < 0.3:
            knobs["salt"] = self._draw.choice(_SALTS)
        if self._draw.random() < 0.3:
            knobs["secret"] = self._draw.choice(_SECRETS)
        return self._set(**knobs) if knobs else ""

    def _set(self, **knobs: object) -> str:
        pairs = [
            word for name, value in knobs.items() for word in (self._make.prefix + name, value)
        ]
        words = f"CONFIG SET {' '.join(map(str, pairs))}"
        try:
            self._client.execute_command("CONFIG SET", *pairs)
        except redis.ResponseError as error:
            return f"{words} (refused: {error})"
        return words

    def _load_anew(self) -> str:
        try:
            self._client.execute_command("MODULE UNLOAD", "spreds")
            self._client.execute_command("MODULE LOAD", str(self._make.module))
        except redis.ResponseError as error:
            return f"MODULE UNLOAD, MODULE LOAD (refused: {error})"
        return "MODULE UNLOAD, MODULE LOAD"


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
