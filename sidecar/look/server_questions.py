"""Connects to a server that is looked at: it asks, many questions at once, and sets nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from sidecar.base.plain_text import plain
from sidecar.config.node import ServerConfig
from sidecar.curves.curve_readiness import no_curve_reason
from sidecar.look.question_encoding import number_in, packed
from sidecar.look.scan_reply import MOST_BYTES as SCAN_BYTES
from sidecar.look.scan_reply import read_scan
from sidecar.servers.connection.bounded_replies import ReplyTooLargeError
from sidecar.servers.connection.connection_words import connection_words
from sidecar.servers.connection.info_figures import Figures, number_of
from sidecar.servers.connection.own_questions import OwnQuestions
from sidecar.servers.connection.redis_server import TIMEOUT_SECONDS, RedisServer
from sidecar.servers.connection.server_connection import MOST_REPLY_BYTES, NONSENSE, REPLY_SECONDS
from sidecar.servers.connection.server_errors import (
    MissingRightError,
    ServerDownError,
    ServerRefusedError,
    WrongPasswordError,
)
from sidecar.servers.connection.server_product import other_product
from sidecar.servers.connection.server_reading import INFO_SECTIONS, READ_SETTINGS, ServerReading
from solver_lambda.documents.words import reason_words

_NO_TOUCH_SINCE = (7, 2)

_PART_BYTES = 65536
# Questions after keys: others wait for all that a server finds in one go (``bench look``).
MOST_AT_ONCE = 64
_DIGITS = re.compile(r"[0-9]{1,9}")  # int() takes other ones too, and fails on very many


class CannotBeLookedAtError(Exception):
    """Says why, for people, as the end of a sentence that begins with the server's name.

    Attributes:
        size_bytes: that the server has all the same, 0 if it is not known.
    """

    def __init__(self, words: str, size_bytes: int = 0) -> None:
        super().__init__(plain(words))
        self.size_bytes = size_bytes


@dataclass(frozen=True)
class Told:
    """Holds what a server says of itself at one time.

    Attributes:
        reading: as the sidecar reads it; our own questions are among its hits and misses.
        evicted, expired: keys, since it started.
        usec, calls: by command, since it started: time that it took, and how often it was run.
        databases: keys by the number of the database.
        is_cluster: whether it is a node of a cluster.
    """

    reading: ServerReading
    evicted: int
    expired: int
    usec: Mapping[str, float]
    calls: Mapping[str, int]
    databases: Mapping[int, int]
    is_cluster: bool


class LookedServer(RedisServer):
    """Every method raises ``ServerDownError`` or ``ServerRefusedError``. Names of keys are bytes.

    Attributes:
        asked: how often each command was sent, by its name in ``INFO commandstats``.
        tells_settings: whether it answers ``CONFIG GET``.
        has_config: whether it has that command, as those do that somebody else does not host.
        databases: keys by the number of the database, when it was last read.
        own: our questions; those of whoever reads its figures as well, if that is given.
    """

    decodes = False
    waits_for_late = False  # another database may be selected there

    def __init__(
        self,
        config: ServerConfig,
        believed: frozenset[int] | None = None,
        own: OwnQuestions | None = None,
    ) -> None:
        self.believed = believed
        super().__init__(config)
        self.own, self.asked = own or self.own, dict[str, int]()
        self._database: int | None = None
        self._settings: Mapping[str, str] = {}
        self._version: tuple[int, ...] = ()
        self.tells_settings = self.has_config = True
        self.databases: Mapping[int, int] = {}

    def close(self) -> None:
        """Hang up; the next question connects again."""
        super().close()
        self._database = None

    def begin(self, *, may_be_empty: bool = False) -> Told:
        """Read its settings, and leave the clocks of its keys alone whatever we ask (from Redis
        7.2 and Valkey on; none of our questions moves them in older ones).

        Raises:
            CannotBeLookedAtError: its policy or role leaves nothing to learn.
        """
        self.tells_settings = self.has_config = True
        told: Told = self._checked(self._begin)
        is_empty = not (may_be_empty or told.reading.keys)
        if why := why_not_looked_at(told.reading) or ("holds no key" if is_empty else None):
            raise CannotBeLookedAtError(why, told.reading.size_bytes)
        return told

    def _begin(self) -> Told:
        told = self.tell()  # who needs a password, or is no Redis, says so here
        try:
            self._settings = self._table("CONFIG GET", *READ_SETTINGS)
        except ServerRefusedError as error:
            self.tells_settings, self.has_config = False, isinstance(error, MissingRightError)
        if self._version >= _NO_TOUCH_SINCE:
            self.ask_each([packed("CLIENT", "NO-TOUCH", "ON")], "client|no-touch")
        return self.tell() if self._settings else told

    def _checked(self, ask: Callable[[], Told]) -> Told:
        """Ask for figures, with errors in the words of who looks."""
        try:
            return ask()
        except WrongPasswordError as error:
            given = self.config.password_from
            raise CannotBeLookedAtError(
                f"does not take the password of {given}"
                if given
                else "wants a password: --password-file FILE, or REDISCLI_AUTH, has it"
            ) from error
        except (ServerDownError, ServerRefusedError) as error:
            raise CannotBeLookedAtError(f"cannot be asked: {error}") from error

    def tell(self) -> Told:
        """Ask for all figures."""
        self._count("info", 1)
        info = self._table("INFO", *INFO_SECTIONS)
        if (product := other_product(info)) is not None:
            raise ServerRefusedError(f"it is {product}: only Redis and Valkey are looked at")
        try:
            return self._told(info)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ServerRefusedError(f"its answer makes no sense: {self.said(error)}") from error

    def _told(self, info: Mapping[str, Any]) -> Told:
        figures = Figures(info, set())
        at_seconds = figures.get("server_time_usec") / 1e6 or time.time()
        reading = ServerReading.parse(info, self._settings, at_seconds)
        version = str(info.get("redis_version", "")).split(".")[:2]
        self._version = tuple(int(part) for part in version if _DIGITS.fullmatch(part))
        stats = {
            key.removeprefix("cmdstat_"): value
            for key, value in info.items()
            if key.startswith("cmdstat_") and isinstance(value, Mapping)
        }
        self.databases = {
            number_of({key: key[2:]}, key): Figures(value, set()).get("keys")
            for key, value in info.items()
            if key[:2] == "db" and isinstance(value, Mapping)
        }
        return Told(
            reading=reading,
            evicted=figures.get("evicted_keys"),
            expired=figures.get("expired_keys"),
            usec={name: float(Figures(one, set()).get("usec")) for name, one in stats.items()},
            calls={name: Figures(one, set()).get("calls") for name, one in stats.items()},
            databases=self.databases,
            is_cluster=any(info.get(key) == "cluster" for key in ("redis_mode", "server_mode")),
        )

    def lru_clock(self) -> int:
        """Return the second that keys are stamped with now; it begins anew after 194 days."""
        self._count("info", 1)
        return Figures(self._table("INFO", "server"), set()).get("lru_clock")

    def select(self, database: int) -> None:
        """Ask of the keys of this database from now on."""
        if self._database == database or (self._database is None and not database):
            return
        self._count("select", 1)
        self.ask("SELECT", str(database))
        self._database = database

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return a part of the keys, and where the next one begins."""
        self._count("scan", 1)
        commands = [packed("SCAN", str(cursor), "COUNT", str(count))]
        with self._asked(commands, "scan", SCAN_BYTES):
            answer = read_scan(self._connection._sock.recv)
        if isinstance(answer, Exception):
            raise ServerRefusedError(f"SCAN: {self.quoted(answer)}") from answer
        return answer

    def ask_each(self, commands: Sequence[bytes], name: str) -> list[Any]:
        """Send commands, each as ``packed``, and read their answers; an error is an answer, too.
        ``name`` is theirs in ``INFO commandstats``."""
        self._count(name, len(commands))
        with self._asked(commands, name):
            return [self._answer() for _ in commands]

    def _answer(self) -> Any:
        try:
            return self._connection.read_response()
        except redis.ResponseError as error:
            return error

    def ask_numbers(self, commands: Sequence[bytes], name: str) -> list[int | Exception | None]:
        """Do as ``ask_each`` does, with commands that are answered by a number, or by nothing. This
        is a tenth of the work for us."""
        if not commands:
            return []
        self._count(name, len(commands))
        with self._asked(commands, name):
            parts, missing = [], len(commands)
            while missing > 0:
                if not (part := self._connection._sock.recv(_PART_BYTES)):
                    raise redis.ConnectionError("the server hung up")
                parts.append(part)
                missing -= part.count(b"\n")
            lines = b"".join(parts).split(b"\r\n")
            return [number_in(line) for line in lines[: len(commands)]]

    def ask_after_keys(
        self, commands: Sequence[bytes], name: str, missing: int | None
    ) -> list[int | Exception | None]:
        """Do as ``ask_numbers`` does, with questions that the server counts as reads. ``missing``:
        what it answers where there is no such key."""
        answers: list[int | Exception | None] = []
        for start in range(0, len(commands), MOST_AT_ONCE):
            answers += self._ask_some(commands[start : start + MOST_AT_ONCE], name, missing)
        return answers

    def _ask_some(
        self, commands: Sequence[bytes], name: str, missing: int | None
    ) -> list[int | Exception | None]:
        with self.own.alone:
            try:
                answers = self.ask_numbers(commands, name)
            except ServerDownError:  # it serves them when it goes on
                self.own.count(len(commands), 0)
                raise
            gone = answers.count(missing)
            told = sum(isinstance(one, int) for one in answers)
            self.own.count(told - gone if missing is not None else told, gone)
        return answers

    @contextmanager
    def _asked(
        self, commands: Sequence[bytes], name: str, most_bytes: int = MOST_REPLY_BYTES
    ) -> Iterator[None]:
        """Send commands, and tell what goes wrong meanwhile in the words of ``RedisServer``."""
        self._replies.begin(most_bytes, TIMEOUT_SECONDS + REPLY_SECONDS)
        try:
            self._connection.send_packed_command([b"".join(commands)])
            yield
        except redis.AuthenticationError as error:
            self.close()
            raise WrongPasswordError(self.quoted(error)) from error
        except (redis.RedisError, OSError) as error:
            self.close()
            words = self.said(connection_words(error, self.config))
            raise ServerDownError(f"{name}: {words}") from error
        except (ReplyTooLargeError, *NONSENSE) as error:
            self.close()
            raise ServerRefusedError(
                f"{name}: its answer makes no sense: {self.said(error)}"
            ) from error

    def _count(self, name: str, times: int) -> None:
        self.asked[name] = self.asked.get(name, 0) + times


def why_not_looked_at(reading: ServerReading) -> str | None:
    """Say what leaves nothing to learn, as the end of a sentence that begins with its name."""
    if reading.role == "slave":
        return "is a replica: look at its primary"
    if reading.config.get(f"{reading.sampler_prefix}endpoint"):
        return (
            "is sampled by a sidecar, which would take our questions for reads: `spreds plan FILE` "
            "has its plan"
        )
    if reading.maxmemory_policy.endswith("-lfu"):
        return (
            f"evicts by {reading.maxmemory_policy}, under which no key has an idle time: its curve "
            "needs the module"
        )
    if why := no_curve_reason(reading):
        return f"has no curve: {reason_words(why)}"
    return None
