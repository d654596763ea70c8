"""Servers that are brought into each state that is compared, and a consumer for their samples."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import redis

from sidecar.samples.wire_format import DEFAULT_MODULUS
from workloads.bench.sampling.slices import CLIENTS, fill
from workloads.local_node import wait_until
from workloads.local_server import LocalServer, built

RATES = (0.001, 0.01, 0.1, 1.0)
_CONSUMER = """
import sys, zmq
socket = zmq.Context().socket(zmq.PULL)
socket.bind(sys.argv[1])
print("bound", flush=True)
while True:
    socket.recv()
"""


class State(NamedTuple):
    """What a server is doing while it is measured.

    Attributes:
        name: for people, and in the JSON.
        server: ``stock``, ``other stock`` (another process of the same file) or ``patch``.
        rate: of sampling; ``None`` if it is off. The stock server samples with the module, and
            has not loaded it while this is ``None``.
        consumer: of the samples: ``listening``, ``absent`` (there never was one) or ``stopped``
            (it has connected, does not read, and the queue is full).
        monitored: a client has sent MONITOR, and reads.
    """

    name: str
    server: str
    rate: float | None = None
    consumer: str = "listening"
    monitored: bool = False


def _sampling(way: str, server: str) -> list[State]:
    return [
        *(State(f"{way} R={rate:g}", server, rate) for rate in RATES),
        *(State(f"{way} R=1, {who}", server, 1.0, who) for who in ("absent", "stopped")),
    ]


STOCK = State("stock", "stock")
STOCK_AGAIN = State("stock again", "stock")
OTHER_STOCK = State("other stock process", "other stock")
MODULE = _sampling("module", "stock")
MONITOR = State("MONITOR", "stock", monitored=True)
OFF = State("patch off", "patch")
OFF_AGAIN = State("patch off again", "patch")
PATCH = _sampling("patch", "patch")
# A state that others are compared with is measured twice.
STATES = [STOCK, STOCK, STOCK_AGAIN, *MODULE, MONITOR, OTHER_STOCK, OFF, OFF, OFF_AGAIN, *PATCH]


@contextmanager
def divided_cores() -> Iterator[set[int]]:
    """Keeps one core for the servers, all their threads, and gives the others to this process and
    those that it starts. Yields the servers'; with a single core, that is for all."""
    everywhere = os.sched_getaffinity(0)
    first, *others = sorted(everywhere)
    os.sched_setaffinity(0, others or [first])
    try:
        yield {first}
    finally:
        os.sched_setaffinity(0, everywhere)


class Consumer:
    """A process that pulls batches and drops them; a context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="spreds-consumer-")
        self.endpoint = f"ipc://{self._folder.name}/samples"
        self.nobody = f"ipc://{self._folder.name}/nobody"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CONSUMER, self.endpoint], stdout=subprocess.PIPE
        )
        assert self._process.stdout
        self._process.stdout.readline()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the consumer for as long as the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


class Servers:
    """Fresh processes of all servers, started in a random order; a context manager.

    Args:
        consumer: of their samples.
        overload: sends many requests to a server, to fill the queue of its samples.
        core: that they may use.
        order: a source of random numbers.
    """

    def __init__(
        self,
        consumer: Consumer,
        overload: Callable[[LocalServer], object],
        core: set[int],
        order: random.Random,
    ) -> None:
        self._consumer, self._overload = consumer, overload
        self._servers: dict[str, LocalServer] = {}
        self._stack = ExitStack()
        names = sorted({state.server for state in STATES})
        with ExitStack() as stack:
            for name in order.sample(names, len(names)):
                binary = built("bin/redis-server" if name == "patch" else "bin/redis-server-stock")
                settings = {"enable-module-command": "local", "maxclients": CLIENTS + 50}
                server = stack.enter_context(LocalServer(settings, binary))
                self._servers[name] = server
                for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), core)
                fill(server)
            self._stack = stack.pop_all()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @contextmanager
    def held_in(self, state: State) -> Iterator[LocalServer]:
        """The server of ``state``, in that state; afterwards it neither samples nor is watched."""
        server = self._servers[state.server]
        with ExitStack() as stack:
            if state.rate is not None:
                stack.enter_context(self._sampling(server, state))
            if state.monitored:
                stack.enter_context(_monitor(server))
            yield server

    @contextmanager
    def _sampling(self, server: LocalServer, state: State) -> Iterator[None]:
        assert state.rate is not None
        consumer = self._consumer
        endpoint = consumer.nobody if state.consumer == "absent" else consumer.endpoint
        knobs = {"threshold": round(state.rate * DEFAULT_MODULUS), "endpoint": endpoint}
        way = _patch if state.server == "patch" else _module
        with way(server, knobs) as prefix, ExitStack() as stack:
            if state.consumer != "absent":
                _wait_until_heard(server, prefix)
            if state.consumer == "stopped":
                stack.enter_context(consumer.stopped())
                before = _counters(server)["spreds_batches_dropped"]
                while _counters(server)["spreds_batches_dropped"] == before:
                    self._overload(server)
            yield


@contextmanager
def _patch(server: LocalServer, knobs: dict[str, object]) -> Iterator[str]:
    """Samples by the patch; the prefix of its knobs."""
    server.client.config_set(*_flat(knobs, "spreds-"))
    yield "spreds-"
    server.client.config_set("spreds-endpoint", "")


@contextmanager
def _module(server: LocalServer, knobs: dict[str, object]) -> Iterator[str]:
    """Samples by the module, loaded for the time; the prefix of its knobs."""
    module = str(built("lib/spreds.so"))
    server.client.module_load(module)
    server.client.config_set(*_flat(knobs, "spreds."))
    yield "spreds."
    server.client.config_set("spreds.endpoint", "")

    def gone() -> bool:
        with suppress(redis.ResponseError):  # it cannot go while its timer runs
            server.client.module_unload("spreds")
        return not server.client.module_list()

    wait_until(gone, server.client.module_list, 0.002)


def _flat(knobs: dict[str, object], prefix: str) -> list[Any]:
    return [part for name, value in knobs.items() for part in (prefix + name, value)]


def _counters(server: LocalServer) -> dict[str, Any]:
    counters: dict[str, Any] = server.client.info("spreds")
    return counters


def _wait_until_heard(server: LocalServer, prefix: str) -> None:
    def sent() -> int:
        counters = _counters(server)
        return int(counters["spreds_batches"] - counters["spreds_batches_dropped"])

    def another() -> bool:
        # A change asks for a header at the server's next tick.
        server.client.config_set(prefix + "salt", random.getrandbits(62) + 1)
        return sent() > before

    before = sent()
    wait_until(another, lambda: _counters(server), 0.005)


@contextmanager
def _monitor(server: LocalServer) -> Iterator[None]:
    """A client that has sent MONITOR, and reads, in a thread."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.socket))
        client.sendall(b"MONITOR\r\n")
        client.recv(len(b"+OK\r\n"), socket.MSG_WAITALL)

        def read() -> None:
            buffer = bytearray(1 << 18)
            while client.recv_into(buffer):
                pass

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            client.shutdown(socket.SHUT_RDWR)
            reader.join()
