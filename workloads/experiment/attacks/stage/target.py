"""What is attacked: real servers, and ``spreds run`` as a process of its own."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import redis

from sidecar.cli import main
from sidecar.control.client import SidecarClient
from workloads.experiment.attacks.stage.attack import FellError
from workloads.local_server import LocalServer, free_port, running_servers, sizes_in_force
from workloads.processes import ForkedProgram, Usage, finished, usage

ROOT = Path(__file__).resolve().parents[4]
MIB = 1 << 20
SERVER_BYTES = 16 * MIB
WAIT_SECONDS = 30.0
_COMMAND = "import sys; from sidecar.cli import main; sys.exit(main(sys.argv[1:]))"


class Target:
    """Servers with some keys, a node's file, and the sidecar; a context manager.

    Args:
        names: of the servers, each with ``SERVER_BYTES``.
        sections: what the node's file has beside its defaults here, for each section its lines;
            the key ``""`` has those above the sections; ``{folder}`` in them is the folder.
        server_lines: for a server's name, more lines of its ``[[server]]``.
        token: whether orders may be given at the port.
        verbose: log also what repeats itself.
        environment: what the sidecar has in its own beside ours.
        server_settings: directives of each server.
        umask: of the sidecar; -1: ours.

    Attributes:
        root: of the checkout.
        folder: with mode 0700: node.toml, state.json, the log, the samples' socket.
        port: where the page is.
        servers: by name.
        sections: may be changed until the file is written.
    """

    def __init__(
        self,
        names: Sequence[str] = ("pages", "sessions"),
        sections: Mapping[str, str] | None = None,
        server_lines: Mapping[str, str] | None = None,
        *,
        token: bool = True,
        verbose: bool = True,
        environment: Mapping[str, str] | None = None,
        server_settings: Mapping[str, object] | None = None,
        umask: int = -1,
    ) -> None:
        self._held = ExitStack()
        self._names = names
        self.sections = dict(sections or {})
        self._server_lines = dict(server_lines or {})
        self._verbose = ["--verbose"] if verbose else []
        self.root = ROOT
        self._environment = dict(environment or {})
        self._server_settings = dict(server_settings or {})
        self._umask = umask
        self.folder = Path(
            self._held.enter_context(tempfile.TemporaryDirectory(prefix="spreds-attack-"))
        )
        self.file = self.folder / "node.toml"
        self.log = self.folder / "log"
        self.port = free_port()
        self.token = secrets.token_hex(16) if token else None
        self.servers: dict[str, LocalServer] = {}
        self.process: ForkedProgram | None = None

    def __enter__(self) -> Self:
        """Start the servers, write the file, start the sidecar and wait until it works."""
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._held.close()

    def prepare(self) -> None:
        """The servers and the file, without the sidecar."""
        settings = {"maxmemory": SERVER_BYTES, **self._server_settings}
        self.servers = self._held.enter_context(
            running_servers(dict.fromkeys(self._names, settings))
        )
        if self.token is not None:
            secret = self.folder / "token"
            secret.write_text(self.token)
            secret.chmod(0o600)
        self.write_file()

    def write_file(self) -> None:
        """``node.toml`` anew, from the sections as they are now."""
        token = 'token_file = "token"\n' if self.token is not None else ""
        defaults = {
            "memory": f'budget = "{len(self._names) * SERVER_BYTES}"\n',
            "sampling": f'endpoint = "ipc://{self.folder}/samples"\nrate = 1.0\n',
            "cycle": 'maximum_age = "2s"\n',
            "controller": 'kind = "embedded"\nfolder = "documents"\n',
            "operators": f'listen = "127.0.0.1:{self.port}"\n{token}',
        }
        top = self.sections.get("", 'mode = "apply"\n')
        text = f'node = "attacked"\nstate_file = "state.json"\n{top}'
        for section in {**defaults, **self.sections}:
            if section:
                lines = self.sections.get(section, defaults.get(section, ""))
                text += f"[{section}]\n{lines.replace('{folder}', str(self.folder))}"
        for name, server in self.servers.items():
            more = self._server_lines.get(name, "")
            text += f'[[server]]\nname = "{name}"\nurl = "{server.url}"\n'
            text += f'backend_latency = "5ms"\n{more}'
        self.file.write_text(text)

    def start(self, ready: bool = True, open_files: int | None = None) -> None:
        """Start the sidecar; with ``ready``, wait until it works. ``open_files``: its limit."""
        arguments = ["run", str(self.file), *self._verbose]
        with self.log.open("ab") as log:
            self.process = ForkedProgram(
                main,
                arguments,
                self.folder,
                log.fileno(),
                {**os.environ, **self._environment},
                umask=self._umask,
                open_files=open_files,
            )
        if ready:
            self.until(self._works, "the sidecar does not begin")

    def _works(self) -> bool:
        status = self.status()
        # Where another program had the port for a moment, it is tried again.
        is_served = not any(one.startswith("operators.") for one in status["problems"])
        has_begun = status["loop_at_seconds"] != status["started_at_seconds"]
        return has_begun and is_served

    def end(self) -> int | None:
        """SIGTERM, and SIGKILL after ten seconds; the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self.process.wait()

    def client(self, name: str, **options: Any) -> redis.Redis:
        """A client of a server, of its own."""
        return redis.Redis(unix_socket_path=str(self.servers[name].socket), **options)

    @staticmethod
    def read_through(client: redis.Redis, keys: Sequence[str], value: bytes) -> None:
        """Read keys, and fill those that are missed."""
        found = zip(keys, client.mget(keys), strict=True)
        if missed := {key: value for key, had in found if had is None}:
            client.mset(missed)

    def fill(self, name: str, keys: int = 2000, value_bytes: int = 1000) -> None:
        """Write and read keys of a server once."""
        pipe = self.servers[name].client.pipeline(transaction=False)
        for number in range(keys):
            pipe.set(f"key:{number}", b"x" * value_bytes)
            pipe.get(f"key:{number}")
        pipe.execute()

    def sizes(self) -> dict[str, int]:
        """Return ``maxmemory`` of all servers, bytes."""
        return sizes_in_force(self.servers)

    def evicted(self) -> int:
        """Keys that all servers have evicted."""
        infos = [server.client.info("stats") for server in self.servers.values()]
        return sum(int(info["evicted_keys"]) for info in infos)

    def ask(self) -> SidecarClient:  # over the sidecar's socket, as the operator
        return SidecarClient(self.folder / "state.json.sock")

    def status(self) -> dict[str, Any]:  # the document, over the socket
        return self.ask().status()

    def server(self, name: str) -> dict[str, Any]:  # as the status document has it
        return next(one for one in self.status()["servers"] if one["name"] == name)

    def cycle(self) -> int:  # of the last observation; 0 before the first
        return int((self.status()["last_observation"] or {"cycle": 0})["cycle"])

    def raw(
        self,
        request: bytes,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        source: str | None = None,
    ) -> bytes:
        """Send bytes to a port, and all that comes back until it is closed."""
        answer = b""
        own = None if source is None else (source, 0)
        with socket.create_connection((host, port or self.port), 5, own) as connection:
            connection.sendall(request)
            try:
                while part := connection.recv(65536):
                    answer += part
            except ConnectionResetError:
                pass  # closed with bytes unread
        return answer

    def order(
        self, target: str = "/api/orders", body: str = '{"what": "pause"}', **headers: str
    ) -> bytes:
        """POST an order to the port as a client without good manners; the whole answer."""
        lines = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return self.raw(f"POST {target} HTTP/1.1\r\n{head}\r\n{body}".encode("latin-1"))

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of ``spreds``' commands to its end."""
        return finished(
            [sys.executable, "-c", _COMMAND, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
        )

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """Return the sidecar's process id."""
        assert self.process is not None
        return self.process.pid

    def usage(self) -> Usage:
        """Return what the sidecar takes of the machine."""
        return usage(self.pid)

    def descriptors(self) -> int:
        """Open files of the sidecar."""
        return self.usage().descriptors

    def resident_bytes(self) -> int:
        """Return the sidecar's resident bytes."""
        return self.usage().rss_bytes

    def until(
        self, condition: Callable[[], object], otherwise: str, seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until the condition holds. Raises FellError: it does not in time."""
        end = time.monotonic() + seconds
        last: Exception | None = None
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except OSError as error:
                last = error
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.05)
        why = f": {last}" if last else ""
        raise FellError(f"{otherwise}{why}; the log ends: {self.log_text()[-1500:]}")
