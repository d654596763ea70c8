"""The servers of a stage: real ones, with the sidecar's own user, each behind a proxy if wanted."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import redis

from workloads.experiment.faults.stage.orders import ending_with_parent
from workloads.experiment.faults.stage.proxy import Proxy
from workloads.local_server import LocalServer, built

OBJECT_BYTES = 4000
USER = "spreds"
RIGHTS = "+info +config|get +config|set +client|setname +client|list +memory|stats +ping"
PATCH, MODULE = "patch", "module"
# What a shrink changes, and must be as before after it.
SHRINK_KNOBS = ("hz", "activedefrag", "active-defrag-ignore-bytes", "maxmemory-eviction-tenacity")
# In the server, which a client that sends all the values keeps waiting. Not all keys at once: it
# evicts before a script, and not in it.
_FILL = """
local value = string.rep('x', ARGV[3])
for key = ARGV[1], ARGV[2] - 1 do redis.call('SET', 'key' .. key, value) end
"""
_FILL_KEYS = 500
# No question to a server that hangs is waited for longer.
ASK_SECONDS = 5.0


class NodeServer:
    """Runs one of the servers; a context manager.

    Attributes:
        name: in the sidecar's file.
        path: of its own socket.
        hangs: it was stopped by SIGSTOP.
        proxy: between the sidecar and it, if there is one.
    """

    def __init__(
        self, name: str, maxmemory_bytes: int, way: str, proxied: bool, settings: dict[str, object]
    ) -> None:
        self.name = name
        self.hangs = False
        self._pins: list[socket.socket] = []
        self._stack = ExitStack()
        more: dict[str, object] = {}
        if way == MODULE:
            more["loadmodule"] = built("lib/spreds.so")
        self.local = LocalServer(
            {
                "maxmemory": maxmemory_bytes,
                "maxmemory-policy": "allkeys-lru",
                "user": f"{USER} on nopass {RIGHTS}",
                "hz": 20,
                **more,
                **settings,
            },
            built("bin/redis-server-stock") if way == MODULE else None,
            ending_with_parent(),
        )
        self._stack.callback(self.local.stop)
        self._stack.callback(self.wake)
        self.path = self.local.socket
        self.proxy = None
        if proxied:
            path = self.local.folder / "proxy.sock"
            self.proxy = self._stack.enter_context(Proxy(path, self.path))
        self.client = redis.Redis.from_url(
            self.local.url, socket_timeout=ASK_SECONDS, decode_responses=True
        )
        self._stack.callback(self.client.close)
        self.knobs = self.shrink_knobs()

    @property
    def sidecar_path(self) -> Path:
        """Return the socket where the sidecar finds the server."""
        return self.proxy.path if self.proxy else self.path

    @property
    def runs(self) -> bool:
        """Whether it runs, also while it hangs."""
        return self.local.process.poll() is None

    def fill(self, keys: int) -> None:
        """Fill the server with objects, the last ones of which stay."""
        for start in range(0, keys, _FILL_KEYS):
            self.client.eval(_FILL, 0, start, min(keys, start + _FILL_KEYS), OBJECT_BYTES)

    def kill(self) -> None:
        """End the server by ``kill -9``."""
        self.unpin()
        self.hangs = False
        self.local.process.kill()
        self.local.process.wait()

    def start(self, maxmemory_bytes: int) -> None:
        """Start the server; its own file has this size then."""
        file = self.local.folder / "redis.conf"
        lines = [
            line for line in file.read_text().splitlines() if not line.startswith("maxmemory ")
        ]
        file.write_text("\n".join([*lines, f"maxmemory {maxmemory_bytes}"]) + "\n")
        self.local._start()

    def hang(self) -> None:
        """Send SIGSTOP, if it runs."""
        if self.runs:
            self.local.process.send_signal(signal.SIGSTOP)
            self.hangs = True

    def wake(self) -> None:
        """Send SIGCONT, if it hangs."""
        if self.hangs and self.runs:
            self.local.process.send_signal(signal.SIGCONT)
        self.hangs = False

    def ask(self, *words: Any) -> Any:
        """A command of somebody else; ``None`` if it is not there or hangs."""
        if not self.runs or self.hangs:
            return None
        with suppress(redis.ConnectionError, redis.TimeoutError):
            return self.client.execute_command(*words)  # type: ignore[no-untyped-call]
        return None

    def maxmemory_bytes(self) -> int | None:
        """Return the maximum in force (0: no limit), if it answers."""
        found = self.ask("CONFIG GET", "maxmemory")
        return int(found["maxmemory"]) if found else None

    def shrink_knobs(self) -> dict[str, str] | None:
        """Return the settings in force, if it answers."""
        found = self.ask("CONFIG GET", *SHRINK_KNOBS)
        return dict(found) if found else None

    def may_set(self, may: bool) -> None:
        """Whether the sidecar's user may CONFIG SET."""
        self.ask("ACL SETUSER", USER, f"{'+' if may else '-'}config|set")

    def pin(self, mebibytes: float) -> None:
        """Hold so much in buffers of clients that ask and do not read."""
        if self.ask("SET", "pinned", b"x" * (1 << 20)) is None:
            return
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(ASK_SECONDS)
        try:
            client.connect(str(self.path))
            client.sendall(b"*2\r\n$3\r\nGET\r\n$6\r\npinned\r\n" * max(1, round(mebibytes)))
        except OSError:
            client.close()
        else:
            self._pins.append(client)

    def unpin(self) -> None:
        """Let the clients that pin memory hang up."""
        for client in self._pins:
            client.close()
        self._pins.clear()
        self.ask("DEL", "pinned")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unpin()
        self._stack.close()
