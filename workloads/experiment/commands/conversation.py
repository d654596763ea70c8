"""Clients that say the same to one or two servers, in step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import RedisError

from workloads.experiment.commands.speaker import Command
from workloads.experiment.commands.tested_server import FoundError
from workloads.local_server import LocalServer

# Milliseconds or seconds: what passes between two servers that are asked one after the other.
_TIME_TOLERANCE = 60_000
# The longest that a server may take for one command.
_ANSWER_SECONDS = 60.0
_REMEMBERED_COMMANDS = 60
_SHOWN_CHARACTERS = 300
# Without the types that redis-py gives it.
_connection: Any = redis.UnixDomainSocketConnection


def same(comparison: str, first: object, second: object) -> bool:
    """Whether replies are alike, by a sign of the vocabulary."""
    if comparison in "~!":
        return True
    first, second = plain(first), plain(second)
    if first == second:
        return True
    if comparison == "*":
        return _sorted(first) == _sorted(second)
    if comparison == "t" and isinstance(first, int) and isinstance(second, int):
        return first > 0 and second > 0 and abs(first - second) <= _TIME_TOLERANCE
    return False


def same_transaction(comparisons: list[str], first: object, second: object) -> bool:
    """Whether the replies of two EXEC are, to commands with these signs."""
    if (
        isinstance(first, list)
        and isinstance(second, list)
        and len(first) == len(second) == len(comparisons)
    ):
        return all(map(same, comparisons, first, second))
    return same("=", first, second)


def plain(reply: object) -> object:
    """A reply that can be compared; an error by its kind and words."""
    if isinstance(reply, RedisError):
        return type(reply).__name__, str(reply)
    if isinstance(reply, list):
        return [plain(item) for item in reply]
    if isinstance(reply, dict):
        return sorted(([plain(key), plain(item)] for key, item in reply.items()), key=repr)
    return repr(reply) if isinstance(reply, float) else reply  # NaN is not equal to itself


def _sorted(reply: object) -> object:
    return sorted(map(_sorted, reply), key=repr) if isinstance(reply, list) else reply


class LostError(FoundError):
    """A connection is lost, or a server is silent."""


class Conversation:
    """Clients with a connection to each of the servers; the first server is the tested one.

    Attributes:
        spoken: how many commands.
        last: the last of them, for people.
    """

    def __init__(self, servers: Sequence[LocalServer], clients: int) -> None:
        self._servers = servers
        self.spoken = 0
        self.last: deque[str] = deque(maxlen=_REMEMBERED_COMMANDS)
        self._queued: list[list[str] | None] = [None] * clients
        self._connections: list[list[Any]] = [[] for _ in range(clients)]
        self._identities: list[list[int]] = [[] for _ in range(clients)]
        self.renew()

    @property
    def clients(self) -> int:
        return len(self._connections)

    def may_reset(self, client: int) -> bool:
        """Whether its protocol stays what it is after a RESET."""
        return _protocol(client) == 2

    def in_transaction(self, client: int) -> bool:
        """Whether what this client says is queued."""
        return self._queued[client] is not None

    def say(self, client: int, commands: Sequence[Command]) -> list[object]:
        """Say some at once, and take the replies; those of the first server.

        Raises:
            FoundError: they differ, or do not come.
        """
        self.send(client, commands)
        return self.hear(client, commands)

    def send(self, client: int, commands: Sequence[Command]) -> None:
        """The first half of ``say``."""
        for command in commands:
            self.last.append(f"client {client}: {command}")
        for connection in self._connections[client]:
            self._try(connection.send_packed_command, self._packed(connection, commands))
        self.spoken += len(commands)

    def hear(self, client: int, commands: Sequence[Command]) -> list[object]:
        """Hear the second half: read the replies and compare them."""
        replies = [
            [self._try(_read, connection) for _ in commands]
            for connection in self._connections[client]
        ]
        for command, *pair in zip(commands, *replies, strict=True):
            self._compare(client, command, pair)
        return replies[0]

    def wait_until_blocked(self, client: int) -> None:
        """Wait until each server has what this client said last: it is blocked, or answered."""
        for server, connection, identity in self._ends(client):
            deadline = time.monotonic() + _ANSWER_SECONDS
            words = ("CLIENT LIST", "ID", identity)
            while not (
                any("b" in one["flags"] for one in self._try(server.execute_command, *words))
                or self._try(connection.can_read, 0)
            ):
                if time.monotonic() > deadline:
                    raise FoundError("a client is neither blocked nor answered")

    def unblock(self, client: int) -> None:
        """End what this client waits for."""
        for server, _, identity in self._ends(client):
            self._try(server.execute_command, "CLIENT UNBLOCK", identity)

    def kill(self, client: int) -> None:
        """Have the servers hang up on this client, which then connects again."""
        self.last.append(f"client {client} is killed")
        for server, connection, identity in self._ends(client):
            self._try(server.execute_command, "CLIENT KILL", "ID", identity)
            connection.disconnect()
        self._connect(client)
        self._queued[client] = None

    def renew(self) -> None:
        """Connect all clients, for the first time or again."""
        self.close()
        self._queued = [None] * self.clients
        for client in range(self.clients):
            self._connect(client)

    def close(self) -> None:
        """Hang up."""
        for connections in self._connections:
            for connection in connections:
                connection.disconnect()

    def _connect(self, client: int) -> None:
        self._connections[client] = [
            _connection(
                path=str(server.socket), socket_timeout=_ANSWER_SECONDS, protocol=_protocol(client)
            )
            for server in self._servers
        ]
        for connection in self._connections[client]:
            self._try(connection.connect)
        self._identities[client] = [
            int(self._try(_ask, connection, b"CLIENT", b"ID"))
            for connection in self._connections[client]
        ]

    def _ends(self, client: int) -> list[tuple[redis.Redis, Any, int]]:
        """List a client's connections: who may ask the server about it, it, its number there."""
        servers = [server.client for server in self._servers]
        return list(zip(servers, self._connections[client], self._identities[client], strict=True))

    def _packed(self, connection: Any, commands: Sequence[Command]) -> list[bytes]:
        return list(connection.pack_commands([command.words for command in commands]))

    def _try(self, function: Any, *arguments: object) -> Any:
        try:
            return function(*arguments)
        except (redis.RedisError, OSError) as error:
            raise LostError(f"a server does not answer: {error}") from error

    def _compare(self, client: int, command: Command, pair: list[object]) -> None:
        queued = self._queued[client]
        if len(pair) == 2 and not (
            same_transaction(queued, pair[0], pair[1])
            if queued is not None and command.name == b"EXEC"
            else same("=" if queued is not None else command.comparison, pair[0], pair[1])
        ):
            shown = "\n".join(f"  {str(plain(reply))[:_SHOWN_CHARACTERS]}" for reply in pair)
            raise FoundError(f"replies differ to client {client}: {command}\n{shown}")
        if pair[0] == b"QUEUED":
            self._queued[client] = [*(queued or []), command.comparison]
        elif command.name == b"MULTI" and pair[0] == b"OK":
            self._queued[client] = []
        elif command.name in (b"EXEC", b"DISCARD", b"RESET"):
            self._queued[client] = None


def _protocol(client: int) -> int:
    """Return the version of RESP: both are spoken."""
    return 2 + client % 2


def _read(connection: Any) -> object:
    try:
        return connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error


def _ask(connection: Any, *words: bytes) -> object:
    connection.send_command(*words)
    return connection.read_response(disable_decoding=True)
