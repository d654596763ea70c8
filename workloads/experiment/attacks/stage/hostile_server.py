"""A server that speaks Redis' protocol and answers whatever its row wants.

Services in place of the node's: a solver that answers as an attacker likes, and SNS.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import redis
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from workloads.experiment.attacks.stage.target import Target
from workloads.experiment.loopback_server import LoopbackServer, Question, Reply
from workloads.experiment.signed_messages import Message, new_key, notification, self_signed, signed

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
    """Return what a real server says, as bytes of the protocol."""
    with socket.socket(socket.AF_UNIX) as real:
        real.connect(client.connection_pool.connection_kwargs["path"])
        return _ask(real, [word.encode() for word in words])


def bulk(text: bytes) -> bytes:
    """Encode one text of Redis' protocol."""
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
    """Return what the real one says, as bytes."""
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
    """Find where a value that begins at ``start`` ends; ``None``: not yet."""
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


TOPIC = "arn:aws:sns:us-east-1:123456789012:plans"
TEST_EVENT = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})
# What it is asked, and what came with it: the answer's body, and more headers.
AnswerToPost = Callable[[bytes, dict[str, str]], tuple[bytes, dict[str, str]]]


class FalseSns(LoopbackServer):
    """Plays SNS, and the node's cloud, which answers nothing but certificates; a context manager.

    Attributes:
        redirects: sends elsewhere whoever asks for a certificate.
    """

    def __init__(self) -> None:
        self.redirects = False
        self._certificates: dict[str, bytes] = {}
        self.key = new_key()
        self.path = self.add(self.key)
        super().__init__(self._served)

    def _served(self, question: Question) -> Reply:
        if question.method == "PUT":
            return Reply(200)
        body = self._certificates.get(question.path)
        if body is None:
            return Reply(404)
        if self.redirects:
            return Reply(302, body, {"Location": f"/elsewhere{question.path}"})
        return Reply(200, body)

    def add(self, key: RSAPrivateKey, name: str = "sns.amazonaws.com") -> str:
        """Serve a certificate for ``name``, signed by itself; its path."""
        path = f"/SimpleNotificationService-{len(self._certificates):08x}.pem"
        self._certificates[path] = self._certificates[f"/elsewhere{path}"] = self_signed(key, name)
        return path

    def message(self, key: RSAPrivateKey | None = None, **fields: str) -> Message:
        """A notification of S3's test event, signed."""
        text = fields.pop("Message", TEST_EVENT)
        topic = fields.pop("TopicArn", TOPIC)
        return signed(notification(topic, text, self.path, **fields), key or self.key)


class HostileSolver(LoopbackServer):
    """Listens on the loopback address; a context manager.

    Attributes:
        asked: how often.
        answer: makes the answer.
    """

    def __init__(self, answer: AnswerToPost) -> None:
        self.asked = 0
        self.answer = answer
        super().__init__(self._solved)

    def _solved(self, question: Question) -> Reply:
        self.asked += 1
        return Reply(200, *self.answer(question.body, dict(question.headers)))


def forged_plan(question: bytes, reason: str, **sizes_bytes: int) -> bytes:
    """A plan that answers the observation in every formal point; servers that are not named keep
    their sizes."""
    asked: dict[str, Any] = json.loads(question)
    plan = {key: asked[key] for key in ("version", "node", "cycle", "budget_bytes")}
    plan |= {
        "kind": "spreds.plan",
        "observation_made_at_seconds": asked["made_at_seconds"],
        "made_at_seconds": time.time(),
        "method": "forged",
        "decision": "apply",
        "reason": reason,
        "servers": [
            {
                "name": server["name"],
                "maxmemory_before_bytes": server["maxmemory_bytes"],
                "maxmemory_bytes": sizes_bytes.get(server["name"], server["maxmemory_bytes"]),
                "reason": "forged",
            }
            for server in asked["servers"]
        ],
    }
    return json.dumps(plan).encode()
