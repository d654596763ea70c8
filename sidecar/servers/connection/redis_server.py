"""Speaks to one Redis (or Valkey) server: what it reports, and the knobs it has."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import redis

from sidecar.config.node import ServerConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.samples.sampler_key import SamplerKey
from sidecar.servers.connection.bounded_replies import ReplyTooLargeError
from sidecar.servers.connection.connection_words import connection_words, wrong_password
from sidecar.servers.connection.info_figures import figure_of
from sidecar.servers.connection.own_questions import OwnQuestions
from sidecar.servers.connection.sampling_method import sampled_by
from sidecar.servers.connection.server_connection import (
    MOST_REPLY_BYTES,
    NONSENSE,
    REPLY_SECONDS,
    ServerConnection,
)
from sidecar.servers.connection.server_errors import (
    MissingRightError,
    ServerError,
    ServerRefusedError,
    ServerSilentError,
    WrongPasswordError,
    down_error,
)
from sidecar.servers.connection.server_lock import CLIENT_NAME, ServerTakenError, check_clients
from sidecar.servers.connection.server_product import other_product
from sidecar.servers.connection.server_reading import INFO_SECTIONS, READ_SETTINGS, ServerReading
from solver_lambda.secret import SecretError, read_secret

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 1.0
LEAST_WAIT_SECONDS = 0.25  # for the second of two questions that share that
LOOK_AGAIN_SECONDS = 5.0  # whether another sidecar has let a server go
# Clients choose their names, which have no bound; of each field of INFO there is made a table.
MOST_BYTES = {"CLIENT LIST": 4 << 20, "INFO": 256 << 10}
SIZE = "maxmemory"
BUSY = "BUSY "  # and not BUSYKEY, nor BUSYGROUP
# Where MEMORY STATS tells the tables' memory: such servers make none smaller while above maxmemory.
_TELLS_OF_TABLES = "mem_overhead_db_hashtable_rehashing"


class RedisServer(ServerConnection):
    """Holds a connection to one server. Two threads must not use it at once.

    Every method raises ``ServerDownError`` or ``ServerRefusedError``.

    Attributes:
        config: what it was made from.
        taken_by: the other sidecar that controls it, as a sentence; ``None``: as far as is known,
            there is none.
        sees_others: whether it could tell who else is connected, when it was last asked.
        may_ask_for_memory: whether its user may, as far as is known, on this connection.
        sampler_key: by which its samples are known.
        own: questions after its keys, which do not count as reads.

    Raises:
        DocumentError: the URL has an option or a port that makes no sense.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.name = config.name
        self.sampler_key, self.own = SamplerKey(), OwnQuestions()
        super().__init__(config, TIMEOUT_SECONDS)
        self._announced = False
        self._owned_run_id: str | None = None
        self._look_again_at = 0.0
        self.taken_by: str | None = None
        self.sees_others = True
        self.may_ask_for_memory = True

    def _forget(self) -> None:
        self._announced = False
        self.may_ask_for_memory = True

    def announce(self, run_id: str) -> None:
        """Say who we are on a new connection, and look who else controls this process of the
        server. ``taken_by`` has the answer, and is asked for again while there is somebody.

        A process that was ours stays ours: who came while our connection was broken does not count.
        A user who may not list clients is not told. Nothing is known of a list that is too long,
        which any user can make. Then only sidecars of this machine see each other.
        """
        if self._announced and (self.taken_by is None or time.monotonic() < self._look_again_at):
            return
        self._look_again_at = time.monotonic() + LOOK_AGAIN_SECONDS
        try:
            self.ask("CLIENT SETNAME", CLIENT_NAME)
            if self._owned_run_id != run_id:
                clients = self.ask("CLIENT LIST")
                self.sees_others = True
                check_clients(clients, self._connection.username)
            self.taken_by, self._owned_run_id = None, run_id
        except ServerTakenError as error:
            self.taken_by = str(error)
        except (ServerRefusedError, *NONSENSE) as error:
            self.taken_by = None
            is_too_long = isinstance(error.__cause__, ReplyTooLargeError)
            level = logging.WARNING if is_too_long and self.sees_others else logging.DEBUG
            log.log(level, "server %s: sidecars elsewhere are not seen: %s", self.name, error)
            if is_too_long:
                self.sees_others = False
                self.ask("CLIENT SETNAME", CLIENT_NAME)  # they see us, on a new connection
        self._announced = True

    def read(self, wait_seconds: float = TIMEOUT_SECONDS) -> ServerReading:
        """Return its state, from INFO and CONFIG GET; it may take that long until it begins to
        answer."""
        if self._announced:
            self.hung_up()  # and the process that has come instead is asked at once
        try:
            with self.own.alone:
                reading = self.own.left_out(self._reading(wait_seconds))
        except ServerError:
            raise
        except Exception as error:  # whatever it is, a server cannot end the others' sidecar
            raise ServerRefusedError(f"its answer makes no sense: {self.said(error)}") from error
        reading = sampled_by(reading, self.config.sampler)
        return replace(reading, taking_commands=()) if self.config.cache else reading

    def _reading(self, wait_seconds: float) -> ServerReading:
        info = self._table("INFO", *INFO_SECTIONS, wait_seconds=wait_seconds)
        if (product := other_product(info)) is not None:
            raise ServerRefusedError(f"it is {product}: only Redis and Valkey are resized")
        config = self._table("CONFIG GET", *READ_SETTINGS)
        tells = _TELLS_OF_TABLES in info and not info.get("loading")  # then it refuses
        tables_bytes = self._tables_bytes() if tells else 0
        return ServerReading.parse(info, config, time.time(), tables_bytes)

    def _tables_bytes(self) -> int:
        """Return the memory of the hash tables; 0 if the user may not ask."""
        if not self.may_ask_for_memory:
            return 0
        try:
            return figure_of(self._table("MEMORY STATS"), "overhead.db.hashtable.lut")
        except ServerRefusedError as error:
            self.may_ask_for_memory = False
            log.warning(
                "server %s: its hash tables are not counted among what it cannot evict: %s",
                self.name,
                error,
            )
            return 0

    def set(self, settings: Mapping[str, object]) -> None:
        """Do CONFIG SET, all or nothing. Some programs say OK to a ``maxmemory``, and ignore it."""
        self._set_within(TIMEOUT_SECONDS, settings)

    def _set_within(self, wait_seconds: float, settings: Mapping[str, object]) -> None:
        until = time.monotonic() + wait_seconds
        words = [str(word) for pair in settings.items() for word in pair]
        self.ask("CONFIG SET", *words, wait_seconds=wait_seconds)
        wanted = settings.get(SIZE)
        if wanted is None:
            return
        left_seconds = max(LEAST_WAIT_SECONDS, until - time.monotonic())
        found = self._table("CONFIG GET", SIZE, wait_seconds=left_seconds).get(SIZE)
        if found != f"{wanted}":
            raise ServerRefusedError(
                f"it says OK to CONFIG SET maxmemory {wanted}, and has {self.said(found)}"
            )

    def start_sampling(
        self, reading: ServerReading, sampling: SamplingConfig, *, anew: bool
    ) -> int | None:
        """Give the sampler its knobs and its secret, if ``reading`` says that they differ, or
        ``anew``, as no reading tells the secret; the threshold that it was given.

        It connects anew before: whoever was at the endpoint before us may have its connection
        still, and would be shown the secret.
        """
        prefix = reading.sampler_prefix
        if prefix is None:
            return None
        threshold = self.sampler_key.threshold or sampling.threshold
        wanted = {
            f"{prefix}modulus": str(sampling.modulus),
            f"{prefix}threshold": str(threshold),
            f"{prefix}endpoint": sampling.endpoint,
        }
        if not anew and all(reading.config.get(key) == value for key, value in wanted.items()):
            return None
        self.sampler_key.give(threshold, sampling.modulus)
        until = time.monotonic() + TIMEOUT_SECONDS
        self.stop_sampling(prefix, {})
        left_seconds = max(LEAST_WAIT_SECONDS, until - time.monotonic())
        secret = {f"{prefix}secret": self.sampler_key.secret.hex()}
        self._set_within(left_seconds, {**secret, **wanted})
        return threshold

    def stop_sampling(self, prefix: str, found: Mapping[str, str]) -> None:
        """Turn the sampler off, with its other knobs as they were ``found``; it forgets the
        secret."""
        self.set({**found, f"{prefix}endpoint": ""})

    def _read_password_again(self) -> None:
        """Read the password again: somebody may have changed it, in the server and its file."""
        if (path := self.config.password_path) is None:
            return
        try:
            self._connection.password = read_secret(path)
        except SecretError as error:
            raise WrongPasswordError(f"password_file {str(path)!r} {error}") from error

    def _table(self, *command: str, wait_seconds: float = TIMEOUT_SECONDS) -> Mapping[str, Any]:
        found = self.ask(*command, wait_seconds=wait_seconds)
        if not isinstance(found, Mapping):
            self.close()
            words = f"{command[0]}: its answer makes no sense: {type(found).__name__}, not a table"
            raise ServerRefusedError(words)
        return found

    def ask(self, *command: str, wait_seconds: float = TIMEOUT_SECONDS) -> Any:
        """Return the answer to one command, as redis-py reads it."""
        others_wait = command[0] == "CONFIG SET" or command[1:] == (SIZE,)
        more_seconds = 0 if others_wait else REPLY_SECONDS
        most_bytes = MOST_BYTES.get(command[0], MOST_REPLY_BYTES)
        self._take_back()
        self._replies.begin(most_bytes, wait_seconds + more_seconds)
        try:
            self._connection.send_command(*command)
            if wait_seconds > TIMEOUT_SECONDS and not self._connection.can_read(wait_seconds):
                raise TimeoutError(f"no answer within {wait_seconds:g} s")
            answer = self._client.parse_response(self._connection, command[0])  # type: ignore[no-untyped-call]
        except redis.exceptions.NoPermissionError as error:
            raise MissingRightError(f"{command[0]}: {self.quoted(error)}") from error
        except redis.ResponseError as error:
            words = f"{command[0]}: {self.quoted(error)}"
            if f"{error}".startswith(BUSY):  # until a script ends it hangs, and only says so
                raise ServerSilentError(words) from error
            raise ServerRefusedError(words) from error
        except redis.AuthenticationError as error:
            self.close()
            self._read_password_again()
            raise WrongPasswordError(
                f"{command[0]}: {wrong_password(self.config)}: {self.quoted(error)}"
            ) from error
        except ReplyTooLargeError as error:
            self.close()
            raise ServerRefusedError(f"{command[0]}: {error}") from error
        except (redis.RedisError, OSError) as error:
            words = f"{command[0]}: {self.said(connection_words(error, self.config))}"
            kind = down_error(error)
            if kind is ServerSilentError:
                self._set_aside()
            else:
                self._hang_up()
            raise kind(words) from error
        except NONSENSE as error:
            self.close()
            raise ServerRefusedError(
                f"{command[0]}: its answer makes no sense: {self.said(error)}"
            ) from error
        self._let_late_go()  # another one is ours
        return answer
