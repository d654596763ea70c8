"""Redis servers of our own, each on a Unix socket in a folder of its own.

And those that SPREDS supports, as ``redis_patch/servers.txt`` lists them.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import redis

from workloads.processes import uninterrupted

BUILD = Path(__file__).resolve().parent.parent / "build"
START_LIMIT_SECONDS = 20.0


def built(name: str) -> Path:
    """The file that ``make setup`` built, for example ``bin/redis-server``.

    Raises:
        FileNotFoundError: not built yet.
    """
    path = BUILD / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built: run 'make setup' first")
    return path


_LEAST_PORT = 10_000


def free_port() -> int:
    """A TCP port that nobody has on this machine now, at no address. It is none of those that the
    kernel gives to connections: one of them would take it before it is used."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = _LEAST_PORT + secrets.randbelow(lowest - _LEAST_PORT)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port


class LocalServer:
    """Starts one server and stops it again; a context manager.

    ``settings`` are configuration directives, for example ``{"maxmemory": "64mb"}``. Nothing is
    saved to disk unless they say so. ``wrapper`` is a command that runs the server, for example
    valgrind; both run in the server's folder.

    Raises:
        RuntimeError: the server did not come up; the message has the end of its log.
        ValueError: it would load code at a port, which every user of the machine reaches.
    """

    def __init__(
        self,
        settings: dict[str, object] | None = None,
        binary: Path | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        has = settings or {}
        if has.get("port") and has.get("enable-module-command", "no") != "no":
            raise ValueError("a server at a port may not have enable-module-command")
        # Not in the caller's folder: a Unix socket's path may have 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="spreds-redis-"))
        self.socket = self.folder / "redis.sock"
        self.log = self.folder / "redis.log"
        directives: dict[str, object] = {
            "port": 0,
            "unixsocket": self.socket,
            "dir": self.folder,
            "logfile": self.log,
            "save": "",
            **has,
        }
        lines = [
            f'{key} "{value}"' if value == "" else f"{key} {value}"
            for key, value in directives.items()
        ]
        (self.folder / "redis.conf").write_text("\n".join(lines) + "\n")
        self.url = f"unix://{self.socket}"
        self.client: redis.Redis = redis.Redis.from_url(self.url)
        try:
            server = binary or built("bin/redis-server")
            self._command: list[str | Path] = [*wrapper, server, self.folder / "redis.conf"]
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        with uninterrupted():
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us, who then stop it
            )
        self._wait_until_up()

    def restart(self) -> None:
        """End the process and start another, with what the configuration file says then."""
        self._end()
        self._start()

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while True:
            try:
                self.client.ping()
                return
            except redis.ConnectionError as error:
                late = time.monotonic() > deadline
                if late or self.process.poll() is not None:
                    log = self.log.read_text() if self.log.exists() else "it left no log"
                    raise RuntimeError(f"Redis did not start: {log[-2000:]}") from error
                time.sleep(0.01)

    def stop(self) -> None:
        """End the process and remove its folder; may be called twice."""
        self.client.close()
        if hasattr(self, "process"):
            self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def equal_shares(names: Sequence[str], budget_bytes: int) -> dict[str, dict[str, object]]:
    """Settings of servers that have as much memory each."""
    return {name: {"maxmemory": budget_bytes // len(names)} for name in names}


@contextmanager
def running_servers(
    settings: Mapping[str, Mapping[str, object]],
) -> Iterator[dict[str, LocalServer]]:
    """Servers by name, with these settings beside LRU for all of their keys.

    Raises:
        RuntimeError: one did not come up; the others are stopped.
    """
    running: dict[str, LocalServer] = {}
    with ExitStack() as stack:
        for name, of_one in settings.items():
            with uninterrupted():
                server = LocalServer({"maxmemory-policy": "allkeys-lru", **of_one})
                running[name] = stack.enter_context(server)
        yield running


def settled_sizes(servers: Mapping[str, LocalServer]) -> dict[str, int]:
    """``maxmemory`` of all, in force together: no change fell between two readings."""
    sizes = sizes_in_force(servers)
    while sizes != (again := sizes_in_force(servers)):
        sizes = again
    return sizes


def sizes_in_force(servers: Mapping[str, LocalServer]) -> dict[str, int]:
    """Return ``maxmemory`` of all, one after the other."""
    return {
        name: int(server.client.config_get("maxmemory")["maxmemory"] or 0)
        for name, server in servers.items()
    }


class PreloadedServer(LocalServer):
    """A ``LocalServer`` that loads what ``source`` (C) defines in place of the C library's.

    ``variables`` are added to its environment; ``wrapper`` as for a local server.

    Raises:
        RuntimeError: the server did not come up.
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(
        self,
        source: Path,
        settings: dict[str, object],
        binary: Path,
        *,
        variables: Mapping[str, object] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self._tools = Path(tempfile.mkdtemp(prefix="spreds-preload-"))
        try:
            library = self._tools / "preloaded.so"
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
            added = {"LD_PRELOAD": library, **(variables or {})}
            words = [f"{name}={value}" for name, value in added.items()]
            super().__init__(settings, binary, ["env", *words, *wrapper])
        except BaseException:
            shutil.rmtree(self._tools, ignore_errors=True)
            raise

    def stop(self) -> None:
        """End the process and remove its folders; may be called twice."""
        super().stop()
        shutil.rmtree(self._tools, ignore_errors=True)


_LIST = Path(__file__).resolve().parent.parent / "redis_patch" / "servers.txt"

# Of Debian, in which newer versions take the place of older ones.
_MOVING_RELEASES = ("sid", "experimental")


class SupportedServer(NamedTuple):
    """Holds one line of the list."""

    name: str
    package: str
    version: str
    release: str
    ways: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return the name for people, for example ``Redis 7.0``."""
        return f"{self.package.capitalize()} {'.'.join(self.version.split('.')[:2])}"

    @property
    def is_moving(self) -> bool:
        """Return whether only ``build.sh newest`` builds it: its release keeps no version."""
        return self.release in _MOVING_RELEASES

    @property
    def stock_binary(self) -> str:
        """Return its file below ``build/``, as the project has it."""
        return f"bin/{self.name}-server-stock"

    @property
    def patched_binary(self) -> str | None:
        """Return the binary with the patch, where there is one."""
        return f"bin/{self.name}-server" if "patch" in self.ways else None


def supported_servers() -> dict[str, SupportedServer]:
    """Return the servers by name, in the list's order."""
    lines = (line.split("#")[0].split() for line in _LIST.read_text().splitlines())
    return {
        name: SupportedServer(name, package, version, release, tuple(ways.split(",")))
        for name, package, version, release, ways in filter(None, lines)
    }
