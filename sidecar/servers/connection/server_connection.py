"""Keeps a connection to one server where an answer is late: others would take its place."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sidecar.base.hidden_secrets import without_secrets
from sidecar.config.addresses import shown_url
from sidecar.config.node import ServerConfig
from sidecar.servers.connection.bounded_replies import (
    BoundedParser,
    BoundedReplies,
    ReplyTooLargeError,
)
from sidecar.servers.connection.guarded_connection import guard
from sidecar.servers.connection.server_errors import ITS_WORDS, MOST_WORDS
from solver_lambda.documents.reader import DocumentError

REPLY_SECONDS = 2.0  # for a reply that has begun; an honest one has some tens of KB
MOST_REPLY_BYTES = 4 << 20
# Redis-py and the reading of its answers raise these when a server answers something else.
NONSENSE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
_LATE_SECONDS = 0.1  # for a late reply of which there is something to read
_ANY_NUMBER = (1 << 31) - 1


class ServerConnection:
    """Connects to one server; not for use by two threads at once. ``timeout_seconds``: for an
    answer to begin.

    Attributes:
        connecting_seconds: of our processor, so far; any user of the machine can lengthen it. What
            a handshake of TLS took is the server's, and not in it.

    Raises:
        DocumentError: the URL has an option or a port that makes no sense.
    """

    # Whether replies are text; names of keys may be any bytes.
    decodes = True
    believed: frozenset[int] | None = None  # users, who alone may listen here; None: anybody
    # Whether a connection is kept whose answer did not come in time, until another is there.
    waits_for_late = True

    def __init__(self, config: ServerConfig, timeout_seconds: float) -> None:
        self.config = config
        self._late: tuple[Any, BoundedReplies] | None = None
        self.connecting_seconds = 0.0
        try:
            self._client: redis.Redis = redis.Redis.from_url(
                config.url,
                username=config.username,
                password=config.password,
                socket_timeout=timeout_seconds,
                socket_connect_timeout=timeout_seconds,
                retry=Retry(NoBackoff(), 0),
                # Redis-py counts each that was ever made, and takes no more than 100.
                max_connections=_ANY_NUMBER,
                decode_responses=self.decodes,
                # In version 3 a server may push, and some pushes make redis-py start threads.
                protocol=2,
                # A client may bring any bytes into INFO and CLIENT LIST.
                encoding_errors="replace",
                parser_class=BoundedParser,
                **(config.tls.options() if config.tls else {}),
            )
            # Redis-py would make a table for each client; we only search the list.
            self._client.response_callbacks.pop("CLIENT LIST")
            self._connection: Any = None
            self._begin_another()
        except (ValueError, TypeError) as error:
            raise DocumentError(
                f"server {config.name}: url {shown_url(config.url)!r}: {error}"
            ) from error

    def _begin_another(self) -> None:
        """Make another connection; the next question connects it."""
        password = self._connection.password if self._connection else self.config.password
        connection: Any = self._client.connection_pool.make_connection()
        connection.password = password
        guard(connection, self.believed, self.config.listeners)
        connection._connect = self._timed(connection, connection._connect)
        # Redis-py would hang up where an answer is late.
        connection.read_response = partial(connection.read_response, disconnect_on_error=False)
        self._connection, self._replies = connection, BoundedReplies(connection)

    @property
    def own_seconds(self) -> float:
        """Return what this thread has taken of our processor, without connecting."""
        return time.thread_time() - self.connecting_seconds

    def said(self, words: object) -> str:
        """Return what it says for others to read, without our password: a server that does not know
        ``AUTH`` repeats what it was sent."""
        passwords = (self._connection.password, self.config.password)
        return without_secrets(f"{words}"[: 2 * MOST_WORDS], passwords)

    def quoted(self, answer: object) -> str:
        """Return an answer as the server's own words: as ours, they could say what root is to
        type."""
        return f"{ITS_WORDS}{self.said(answer)}"

    def _timed(self, connection: Any, connect: Callable[[], Any]) -> Callable[[], Any]:
        def others_seconds() -> float:
            return time.thread_time() - getattr(connection, "handshake_seconds", 0.0)

        def timed() -> Any:
            began = others_seconds()
            try:
                return connect()
            finally:
                self.connecting_seconds += others_seconds() - began

        return timed

    def close(self) -> None:
        """Hang up; the next question connects again."""
        self._let_late_go()
        self._hang_up()

    def _let_late_go(self) -> None:
        if self._late is not None:
            self._late[0].disconnect()
            self._late = None

    def _forget(self) -> None:
        """Forget what is known of a connection that is no more."""

    def _hang_up(self) -> None:
        self._forget()
        self._connection.disconnect()

    def _set_aside(self) -> None:
        """Its answer may still come, and is not taken for the next command's. Another connection
        is tried; until one is ours, others could take all that the server has."""
        if self._late is not None or not (self.waits_for_late and self._connection.is_connected):
            self._hang_up()
            return
        self._forget()
        self._late = self._connection, self._replies
        self._begin_another()

    def _take_back(self) -> None:
        """Take back the connection that was set aside, if its answer has come."""
        if self._late is None:
            return
        connection, replies = self._late
        replies.go_on(_LATE_SECONDS)
        try:
            if not connection.can_read(0):
                return
            connection.read_response()
        except redis.ResponseError:
            pass  # it is an answer
        except (redis.TimeoutError, TimeoutError):
            return  # a part of it
        except (redis.RedisError, OSError, ReplyTooLargeError, *NONSENSE):
            self._let_late_go()
            return
        self._hang_up()
        (self._connection, self._replies), self._late = self._late, None

    def hung_up(self) -> bool:
        """Whether the server has closed the connection since it last answered; sends nothing, and
        connects nowhere."""
        self._take_back()
        if not self._connection.is_connected:
            return self._late is None
        self._replies.begin(MOST_REPLY_BYTES, REPLY_SECONDS)
        try:
            # Nothing is asked, so whatever there is to read is the end.
            ended = bool(self._connection.can_read())
        except (redis.RedisError, OSError):
            ended = True
        if ended:
            self._hang_up()
        return ended
