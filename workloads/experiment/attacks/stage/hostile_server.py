"""A server that speaks Redis' protocol and answers whatever its row wants."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

import redis

from workloads.experiment.attacks.stage.target import Target

Answer = Callable[[list[str]], Iterable[bytes] | None]


class HostileServer:
    """Answers at a Unix socket, or at a port where ``path`` is ``None``, with ``answer(words)``,
    part by part; where that is ``None``, with what a real server says. A context manager."""

    def __init__(self, path: Path | None, real: redis.Redis, answer: Answer) -> None:
        self._real_path = real.connection_pool.connection_kwargs["path"]
        self._answer = answer
        if path is not None:
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(str(path))
            self._listening.listen()
            self.url = f"unix://{path}"
        else:
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}"
        self._ends = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, socket.socket(socket.AF_UNIX) as real, connection.makefile("rb") as asked:
            real.connect(self._real_path)
            try:
                while words := _words(asked):
                    parts = self._answer([word.decode() for word in words])
                    for part in parts if parts is not None else [_ask(real, words)]:
                        connection.sendall(part)
                        if self._ends.is_set():
                            return
            except OSError:
                return  # hung up, as it should be


@contextmanager
def hostile_in_place_of(
    target: Target, name: str, answer: Answer, *, at_a_port: bool = False
) -> Iterator[None]:
    """The sidecar of a target is started anew, with a hostile server for one of its own."""
    target.end()
    server = target.servers[name]
    path = None if at_a_port else target.folder / "hostile.sock"
    with HostileServer(path, server.client, answer) as hostile:
        target.file.write_text(target.file.read_text().replace(server.url, hostile.url))
        target.start()
        yield
        target.end()


def ask_real(client: redis.Redis, words: list[str]) -> bytes:
    """What a real server says, as bytes of the protocol."""
    with socket.socket(socket.AF_UNIX) as real:
        real.connect(client.connection_pool.connection_kwargs["path"])
        return _ask(real, [word.encode() for word in words])


def bulk(text: bytes) -> bytes:
    """As one text of Redis' protocol."""
    return b"$%d\r\n%b\r\n" % (len(text), text)


def _words(file: BinaryIO) -> list[bytes]:
    count = file.readline()
    if not count.startswith(b"*"):
        return []
    found = []
    for _ in range(int(count[1:])):
        length = int(file.readline()[1:])
        found.append(file.read(length + 2)[:-2])
    return found


def _ask(real: socket.socket, words: list[bytes]) -> bytes:
    """What the real one says, as bytes."""
    real.sendall(b"*%d\r\n%b" % (len(words), b"".join(map(bulk, words))))
    answer = b""
    real.settimeout(5)
    while True:
        answer += real.recv(1 << 16)
        if _is_whole(answer):
            return answer


def _is_whole(answer: bytes) -> bool:
    end = _end_of(answer, 0)
    return end is not None and end <= len(answer)


def _end_of(answer: bytes, start: int) -> int | None:
    """Where a value that begins there ends; ``None``: not yet."""
    stop = answer.find(b"\r\n", start)
    if stop < 0:
        return None
    kind, end = answer[start : start + 1], stop + 2
    if kind in b"+-:_,#(":
        return end
    size = int(answer[start + 1 : stop])
    if kind in b"$=":
        return end if size < 0 else end + size + 2
    for _ in range(size * (2 if kind == b"%" else 1)):
        found = _end_of(answer, end)
        if found is None or found > len(answer):
            return None
        end = found
    return end
