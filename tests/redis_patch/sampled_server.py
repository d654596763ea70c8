"""A server whose sampled accesses a test reads: with the patch, or stock with the module."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import redis
import zmq

from tests.redis_patch.wire_twin import Batch, Record, key_hash, unpack
from workloads.local_server import BUILD, LocalServer, SupportedServer, supported_servers

WAIT_SECONDS = 20.0
MODULUS = 1 << 24
SALT = 0x5EED


class ServerKind(NamedTuple):
    """A supported server that is sampled in one way; ``way`` is ``patch`` or ``module``."""

    server: SupportedServer
    way: str

    @property
    def name(self) -> str:
        return f"{self.way} on {self.server.title}"

    @property
    def binary(self) -> Path:
        name = self.server.stock_binary if self.is_module else self.server.patched_binary
        return BUILD / str(name)

    @property
    def is_redis_70(self) -> bool:
        return self.server.title == "Redis 7.0"

    @property
    def is_redis_86(self) -> bool:
        return self.server.title == "Redis 8.6"

    @property
    def source(self) -> str:
        """The column of the command cases that holds for it."""
        if not self.is_module:
            return "patch_valkey" if self.server.package == "valkey" else "patch"
        if self.server.package == "valkey":
            return "module_valkey"
        return "module_70" if self.is_redis_70 else "module"

    @property
    def is_module(self) -> bool:
        return self.way == "module"

    @property
    def needs(self) -> list[Path]:
        return [self.binary, BUILD / "lib" / "spreds.so"] if self.is_module else [self.binary]

    @property
    def why_not(self) -> str | None:
        """Return what is missing to run it, or None."""
        missing = [path for path in self.needs if not path.exists()]
        return f"{missing[0].relative_to(BUILD.parent)} is not built" if missing else None

    @property
    def stock(self) -> Path:
        """The binary of the same make without the patch."""
        return BUILD / self.server.stock_binary

    def knob(self, name: str) -> str:
        return f"spreds.{name}" if self.is_module else f"spreds-{name}"

    def settings(self) -> dict[str, object]:
        return {"loadmodule": BUILD / "lib" / "spreds.so"} if self.is_module else {}


KINDS = [
    ServerKind(server, way)
    for way in ("patch", "module")
    for server in supported_servers().values()
    if way in server.ways
]


class SampledServer:
    """Runs one server, samples every key unless told otherwise, and holds the socket that listens.

    A context manager.
    """

    def __init__(
        self,
        kind: ServerKind,
        settings: Mapping[str, object] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self._folder = tempfile.TemporaryDirectory(prefix="spreds-samples-")
        self.folder = Path(self._folder.name)
        self.endpoint = f"ipc://{self.folder}/samples"
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.batches: list[Batch] = []
        self.listener: zmq.Socket[bytes] | None = None
        self.listen()
        self.server = LocalServer(
            {**kind.settings(), "enable-debug-command": "yes", **(settings or {})},
            kind.binary,
            wrapper,
        )
        self.client = self.server.client

    def __enter__(self) -> SampledServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.stop()
        self.stop_listening()
        self.context.destroy(linger=0)
        self._folder.cleanup()

    # the consumer

    def listen(self) -> None:
        self.listener = self.context.socket(zmq.PULL)
        self.listener.bind(self.endpoint)

    def stop_listening(self) -> None:
        if self.listener:
            self.listener.close(linger=0)
        self.listener = None

    def receive(self, milliseconds: int = 0) -> None:
        """Take the batches that are there, or the first that comes within the time."""
        assert self.listener
        while self.listener.poll(milliseconds):
            self.batches.append(unpack(self.listener.recv()))
            milliseconds = 0

    # the knobs

    def set(self, **knobs: object) -> None:
        """Set some knobs at once by ``CONFIG SET``."""
        pairs = [part for name, value in knobs.items() for part in (self.kind.knob(name), value)]
        self.client.execute_command("CONFIG SET", *pairs)

    def get(self, knob: str) -> str:
        return str(self.client.config_get(self.kind.knob(knob))[self.kind.knob(knob)])

    def start(self, threshold: int = MODULUS, salt: int = SALT) -> None:
        """Sample keys with hash < ``threshold`` of 2^24, and wait until the first batch arrives."""
        self.set(threshold=threshold, modulus=MODULUS, salt=salt, endpoint=self.endpoint)
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        before = len(self.batches)
        deadline = time.monotonic() + WAIT_SECONDS
        threshold = int(self.get("threshold"))
        while len(self.batches) == before:
            assert time.monotonic() < deadline, "no batch arrived"
            self.set(
                threshold=threshold - 1 if threshold else 1
            )  # a change asks for a header at once
            self.set(threshold=threshold)
            self.receive(20)

    # what was recorded

    def counters(self) -> dict[str, Any]:
        """Return ``INFO spreds``, without the prefix."""
        info: dict[str, Any] = self.client.info("spreds")
        return {
            name.removeprefix("spreds_"): value
            for name, value in info.items()
            if name.startswith("spreds_")
        }

    def records(self) -> list[Record]:
        """Return all records so far; wait until those that were made have arrived."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            self.receive(10)
            records = [record for batch in self.batches for record in batch.records]
            counters = self.counters()
            if len(records) == counters["sampled"] - counters["dropped"]:
                return records
            assert time.monotonic() < deadline, f"{len(records)} records arrived of {counters}"

    def raw(self, command: str | Sequence[str | bytes | int]) -> Any:
        """Run one command as it is; an error is returned, not raised."""
        connection = self.client.connection_pool.get_connection()
        try:
            words = shlex.split(command) if isinstance(command, str) else command
            connection.send_command(*words)
            return connection.read_response()
        except redis.ResponseError as error:
            return error
        finally:
            self.client.connection_pool.release(connection)


OPERATION_NAMES = {
    1: "hit",
    2: "miss",
    3: "write",
    4: "delete",
    5: "expiry",
    6: "eviction",
    7: "flush",
    8: "swap",
}


def named(records: Sequence[Record], keys: Sequence[str], salt: int = SALT) -> list[str]:
    """Records as text, ``hit k``; the keys that can occur are given, for hashes tell none."""
    names = {key_hash(key.encode(), salt): f" {key}" for key in keys}
    return [
        OPERATION_NAMES[record.operation]
        + ("" if record.operation >= 7 else names.get(record.hash, " ?"))
        for record in records
    ]
