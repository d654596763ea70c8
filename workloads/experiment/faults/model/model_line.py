"""The line between a sidecar and a model of a server: in the place of a connection."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.background_reading import PATIENCE_SECONDS
from sidecar.servers.connection.redis_server import TIMEOUT_SECONDS, RedisServer
from sidecar.servers.connection.server_errors import MissingRightError, ServerDownError
from sidecar.servers.connection.server_reading import ServerReading
from workloads.experiment.faults.model.model_server import ModelServer
from workloads.experiment.faults.model.simulated_time import NotYetError, SimulatedClock

# Of a command that nothing holds up.
COMMAND_SECONDS = 0.0005


class LineWatch(Protocol):
    """Told of what goes over the line; ``sends`` and ``took`` may end the sidecar, by an exception.

    Sizes are ``maxmemory`` in bytes; infinite is no limit, ``None`` says that it is about another
    setting.
    """

    def sends(self, server: ModelServer, size_bytes: float | None) -> None:
        """CONFIG SET is about to be sent."""

    def waits(self, server: ModelServer, size_bytes: float | None) -> None:
        """It was, and waits until the server goes on."""

    def takes(self, server: ModelServer, size_bytes: float | None, life: int) -> None:
        """The server carries out what was sent in that life of the sidecar."""

    def took(self) -> None:
        """It has, and is about to answer."""

    def seen(self, server: ModelServer) -> None:
        """The sidecar has looked at it."""


@dataclass
class _Question:
    """What a server says of itself was asked, at a time and of a process."""

    asked_at: float
    starts: int
    answer: ServerReading | None = None
    answer_at: float = math.inf


class ModelLine(RedisServer):
    """Asks a model. What is sent to a server that hangs is carried out when it goes on."""

    def __init__(
        self,
        config: ServerConfig,
        server: ModelServer,
        clock: SimulatedClock,
        watch: LineWatch,
        life: int,
    ) -> None:
        # Not RedisServer's: there is nothing to connect to.
        self.config = config
        self.name = config.name
        self.may_ask_for_memory = self.sees_others = True
        self._server = server
        self._clock = clock
        self.taken_by = None
        self.connecting_seconds = 0.0
        self._watch = watch
        self._life = life
        self._met_start: int | None = None
        self._question: _Question | None = None

    def close(self) -> None:
        self._met_start = None

    def hung_up(self) -> bool:
        return not self._server.is_alive or self._met_start != self._server.starts

    def announce(self, run_id: str) -> None:
        pass

    def read(self, wait_seconds: float = TIMEOUT_SECONDS) -> ServerReading:
        if self._clock.in_job:
            return self._read_when_it_answers(wait_seconds)
        self._reach()
        reading = self._server.reading(self._clock.time())
        self._reply()
        return reading

    def look(self) -> ModelServer:
        """Look at the server in less time than by ``read``, and return it. Raises as ``read``."""
        self._reach()
        self._reply()
        self._watch.seen(self._server)
        return self._server

    def _read_when_it_answers(self, wait_seconds: float) -> ServerReading:
        """Does not wait itself: raises ``NotYetError``."""
        server, now = self._server, self._clock.now
        question = self._question or _Question(now, server.starts)
        self._question = None
        if not server.is_alive or server.starts != question.starts:
            self.close()
            raise ServerDownError("it is dead")
        if question.answer is None and not server.hangs:
            question.answer = server.reading(self._clock.time())
            question.answer_at = now + server.delay_seconds
        if question.answer is not None and now >= question.answer_at:
            self._met_start = server.starts
            server.answered_late = now - question.asked_at > PATIENCE_SECONDS
            return question.answer
        if now >= question.asked_at + wait_seconds:
            self.close()
            raise ServerDownError("it hangs")
        self._question = question
        raise NotYetError

    def set(self, settings: Mapping[str, object]) -> None:
        server, starts = self._server, self._server.starts
        words = {knob: str(value) for knob, value in settings.items()}
        size_bytes = int(words["maxmemory"]) or math.inf if "maxmemory" in words else None

        def apply_transition() -> None:
            if server.starts == starts and not server.refuses:
                self._watch.takes(server, size_bytes, self._life)
                server.take(words)

        self._watch.sends(server, size_bytes)
        if server.hangs:
            self._watch.waits(server, size_bytes)
            server.late.append(apply_transition)
        self._reach()
        if server.refuses:
            self._reply()
            raise MissingRightError("CONFIG SET: the user may not")
        apply_transition()
        self._watch.took()
        self._reply()

    def _reach(self) -> None:
        self._clock.advance(COMMAND_SECONDS)
        if not self._server.is_alive:
            self._met_start = None
            raise ServerDownError("it is dead")
        if self._server.hangs:
            self._clock.advance(TIMEOUT_SECONDS)
            raise ServerDownError("it hangs")
        self._met_start = self._server.starts

    def _reply(self) -> None:
        if self._server.hangs or not self._server.is_alive:
            self._reach()  # raises: it has gone meanwhile
        seconds = self._server.delay_seconds
        self._clock.advance(min(seconds, TIMEOUT_SECONDS))
        if seconds >= TIMEOUT_SECONDS:
            self.close()
            raise ServerDownError("no reply in time" if seconds < math.inf else "no reply")


class Sidecar(Protocol):
    """One life of it, one step at a time.

    Attributes:
        is_settled: it only keeps what there is.
    """

    @property
    def is_settled(self) -> bool: ...

    def begin(self) -> None:
        """Look at the servers, and keep their sizes from now on, if that can be had."""

    def plan(self, sizes_bytes: Mapping[str, int]) -> None:
        """Bring the servers there, if that can be had."""

    def step(self) -> None:
        """Do what it does in one round."""

    def try_again(self) -> None:
        """Try again to keep sizes, where that could not be had."""

    def terminate(self) -> None:
        """End as after SIGTERM."""


# Called for each life of the sidecar; what is on file, the function remembers.
MakeSidecar = Callable[[Sequence[ModelLine]], Sidecar]
