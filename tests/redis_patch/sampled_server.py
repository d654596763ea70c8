"""A server whose sampled accesses a test reads: with the patch, or stock with the module."""

from __future__ import annotations

import shlex
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import redis
import zmq

from tests.redis_patch.wire_twin import Batch, Record, key_hash, unpack
from workloads.local_server import BUILD, LocalServer

WAIT_SECONDS = 20.0
MODULUS = 1 << 24
SALT = 0x5EED


class ServerKind(NamedTuple):
    """``source`` is the column of the command cases that holds for it."""

    name: str
    binary: str
    source: str

    @property
    def is_module(self) -> bool:
        return self.source != "patch"

    @property
    def needs(self) -> list[Path]:
        files = [BUILD / "bin" / self.binary]
        return [*files, BUILD / "lib" / "spreds.so"] if self.is_module else files

    @property
    def why_not(self) -> str | None:
        """What is missing to run it, or None."""
        missing = [path for path in self.needs if not path.exists()]
        return f"{missing[0].relative_to(BUILD.parent)} is not built" if missing else None

    @property
    def stock(self) -> Path:
        """The binary of the same make without the patch."""
        return BUILD / "bin" / (self.binary if self.is_module else f"{self.binary}-stock")

    def knob(self, name: str) -> str:
        return f"spreds.{name}" if self.is_module else f"spreds-{name}"

    def settings(self) -> dict[str, object]:
        return {"loadmodule": BUILD / "lib" / "spreds.so"} if self.is_module else {}


PATCH_REDIS = ServerKind("patch on Redis 7.0", "redis-server", "patch")
PATCH_VALKEY = ServerKind("patch on Valkey 8.1", "valkey-server", "patch")
MODULE_REDIS_70 = ServerKind("module on Redis 7.0", "redis-server-stock", "module_70")
MODULE_REDIS_8 = ServerKind("module on Redis 8.0", "redis8-server-stock", "module")
MODULE_VALKEY = ServerKind("module on Valkey 8.1", "valkey-server-stock", "module_valkey")
KINDS = [PATCH_REDIS, PATCH_VALKEY, MODULE_REDIS_70, MODULE_REDIS_8, MODULE_VALKEY]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class SampledServer:
    """Runs one server, samples every key unless told otherwise, and holds the socket that listens.

    A context manager.
    """

    def __init__(self, kind: ServerKind, settings: Mapping[str, object] | None = None) -> None:
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
            BUILD / "bin" / kind.binary,
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
        """``CONFIG SET`` of some knobs at once."""
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
        """``INFO spreds``, without the prefix."""
        info: dict[str, Any] = self.client.info("spreds")
        return {
            name.removeprefix("spreds_"): value
            for name, value in info.items()
            if name.startswith("spreds_")
        }

    def records(self) -> list[Record]:
        """All records so far; waits until those that were made have arrived."""
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
