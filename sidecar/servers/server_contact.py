"""Whether one server answers, what it says, and what is asked of it: one question at a time."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress

from sidecar.base.log_setup import BOUNDED
from sidecar.base.metrics import Metrics
from sidecar.servers.connection.background_reading import PATIENCE_SECONDS, BackgroundReading
from sidecar.servers.connection.redis_server import TIMEOUT_SECONDS, RedisServer
from sidecar.servers.connection.server_errors import (
    ServerDownError,
    ServerRefusedError,
)
from sidecar.servers.connection.server_lock import (
    CurrentProcessLock,
    SameServerError,
    ServerTakenError,
)
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.eviction_yield import EvictionYield
from sidecar.servers.reachability import Reachability
from sidecar.servers.unanswered_sizes import UnansweredSizes

log = logging.getLogger(__name__)

# One server's answers may take so much of a core of ours, whatever is in them. An answer that took
# less than the second figure is followed by no rest, and no rest is longer than the third: another
# process may have come instead.
_OWN_SHARE, _LITTLE_SECONDS, _MOST_REST_SECONDS = 0.05, 0.02, 5.0


def rest_seconds(own_seconds: float) -> float:
    """Return how long a server is left alone whose answer took so much of our processor."""
    if own_seconds <= _LITTLE_SECONDS:
        return 0.0
    return min(own_seconds / _OWN_SHARE, _MOST_REST_SECONDS)


# The others wait so long for a server that is silent from the start: it may have any size.
UNREAD_SECONDS = 10.0
# A server that takes a setting no faster gets one a second.
SLOW_SET_SECONDS = 0.25


class NotSentError(ServerDownError):
    """Nothing was sent: it is busy with what it was asked before."""


class ServerContact:
    """Asks one server, for one thread at a time; the questions themselves are asked in another.

    Attributes:
        answered_at: when it last did, of the monotonic clock.
        is_back: its last answer came after it had not answered.
        taken_by: who else controls it, as a sentence; then nothing is set on it. ``None``: nobody.
        sets_slowly: it took the last setting slowly.
    """

    def __init__(self, server: RedisServer, metrics: Metrics) -> None:
        self.name = server.name
        self.answered_at = -math.inf
        self.is_back = self.sets_slowly = False
        self.taken_by: str | None = None
        self._counts_tables = self._sees_others = True
        self._unanswered = UnansweredSizes()
        self._eviction_yield = EvictionYield(server.name, metrics)
        self._is_slow = self._may_act = False
        self._sets_again_at = self._rests_until = -math.inf
        self._sets_late_as = ""
        self._server = server
        self._metrics = metrics
        self._lock = CurrentProcessLock()
        self._reachability = Reachability()
        self._reading = BackgroundReading(server)
        self._began = time.monotonic()

    @property
    def is_up(self) -> bool:
        """Whether it answered when it was last asked, or may still do so in time."""
        return self._reachability.is_up

    @property
    def is_free(self) -> bool:
        """Whether something can be asked of it now."""
        return self._reachability.is_up and not self._reading.is_pending

    @property
    def error(self) -> str | None:
        """Say why it does not answer, ``None`` if it does."""
        return self._reachability.error

    @property
    def is_down(self) -> bool:
        """Whether nobody is there, or it cannot be read; one that only has not answered may be
        there."""
        return self._reachability.error is not None and not self._reachability.is_silent

    @property
    def counts_as_planned(self) -> bool:
        """Nobody waits to hear what it has, if it has never said that."""
        return self.is_down or time.monotonic() - self._began > UNREAD_SECONDS

    @property
    def is_gone(self) -> bool:
        """Whether nobody has listened for it for a while."""
        return self._reachability.is_gone

    def meet(self) -> str | None:
        """Return the process that it is, if it answers; changes nothing on it."""
        try:
            reading = self._server.read()
            self._server.announce(reading.run_id)
        except (ServerDownError, ServerRefusedError) as error:
            log.debug("server %s is not claimed yet: %s", self.name, error)
            return None
        return reading.run_id

    def claim(self, run_id: str) -> str | None:
        """Find out whether this process of it is ours; return who else controls it."""
        with suppress(SameServerError):  # then that is who
            self._hold(run_id)
        return self.taken_by

    def _hold(self, run_id: str) -> None:
        """Hold the server's process. Raises SameServerError: what it says is said of another one,
        too, and counts there."""
        before, self.taken_by = self.taken_by, self._server.taken_by
        try:
            self._lock.hold(run_id)
        except ServerTakenError as error:
            self.taken_by = str(error)
        except SameServerError as error:
            self.taken_by = str(error)
            raise
        finally:
            self._tell_taken(before)

    def _tell_taken(self, before: str | None) -> None:
        if self.taken_by != before:
            words = f"is left alone, the others go on: {self.taken_by}"
            log.warning("server %s %s", self.name, words if self.taken_by else "is ours now")

    def ask(self) -> Future[ServerReading] | None:
        """Ask what it says now, unless it has not answered yet, or is asked again later.

        One that is slow to answer is not asked again until something could be done by its answer.
        """
        may_act, self._may_act = self._may_act, False
        if self._reading.is_pending or not self._reachability.is_due or may_act or self.rests:
            return None
        self._reachability.ask()
        return self._reading.begin()

    @property
    def rests(self) -> bool:
        """Whether its last answer took so much of our processor that it is not asked for a
        while."""
        return time.monotonic() < self._rests_until

    @property
    def is_slow(self) -> bool:
        """Whether its last answer was slow, and is no older than ``TIMEOUT_SECONDS``."""
        return self._is_slow and time.monotonic() - self.answered_at < TIMEOUT_SECONDS

    def take(self) -> ServerReading | None:
        """Return what it has answered; ``None`` if nothing yet, or what cannot be used."""
        try:
            reading = self._reading.take()
            if reading is None:
                return None
            self._rest()
            self._hold(reading.run_id)
        except (ServerDownError, ServerRefusedError, SameServerError) as error:
            self._rest()
            self._lose(error)
            return None
        if self._counts_tables and not self._server.may_ask_for_memory:
            self._metrics.tables_not_counted.labels(self.name).inc()
        self._counts_tables = self._server.may_ask_for_memory
        if self._sees_others and not self._server.sees_others:
            self._metrics.client_lists_too_long.labels(self.name).inc()
        self._sees_others = self._server.sees_others
        self.answered_at = time.monotonic()
        took_seconds = self.answered_at - self._reading.asked_at
        self._is_slow = self._may_act = took_seconds > PATIENCE_SECONDS
        self.is_back = self._reachability.answer()
        if self.is_back:
            log.info("server %s answers again", self.name, extra=BOUNDED)
        return self._eviction_yield.learn(reading)

    def _rest(self) -> None:
        self._rests_until = time.monotonic() + rest_seconds(self._reading.own_seconds)

    @property
    def own_seconds(self) -> float:
        """Return what this thread has taken of our processor, without connecting to the server."""
        return self._server.own_seconds

    def set_no_more_for(self, seconds: float, why: str) -> None:
        """Set nothing on it for so long."""
        self._sets_again_at = max(self._sets_again_at, time.monotonic() + seconds)
        self._sets_late_as = why

    def wait(self, seconds: float) -> None:
        """Wait until there is something to take, at most that long."""
        self._reading.wait(seconds)

    def awaits(self, since: float) -> bool:
        """Whether it may still answer in time, and has not since then (monotonic)."""
        return self._reachability.is_up and self.answered_at < since and not self.rests

    def hung_up(self) -> bool:
        """Whether the server has closed the connection since it last answered; sends nothing."""
        return not self._reading.is_pending and self._server.hung_up()

    def set(self, settings: Mapping[str, object]) -> None:
        """Set these by CONFIG SET. Raises as ``RedisServer``; refuses where another sidecar
        controls it."""
        if self.taken_by is not None:
            raise ServerRefusedError(self.taken_by)
        if self._reading.is_pending:
            raise NotSentError("it has not answered yet")
        began, own_began = time.monotonic(), self.own_seconds
        if began < self._sets_again_at:
            raise NotSentError(f"{self._sets_late_as}: it gets the next one later")
        self._reachability.ask()
        try:
            self._server.set(settings)
        except (ServerRefusedError, ServerDownError) as error:
            self._metrics.config_set_errors.labels(self.name).inc()
            if isinstance(error, ServerDownError):
                self._unanswered.add(settings.get("maxmemory"))
                self._lose(error)
            raise
        finally:
            self.sets_slowly = time.monotonic() - began > SLOW_SET_SECONDS
            if self.sets_slowly:
                self.set_no_more_for(TIMEOUT_SECONDS, "it was slow to take a setting")
            if rest := rest_seconds(self.own_seconds - own_began):
                self.set_no_more_for(rest, "its answer to a setting took much of our processor")

    def may_be_ours(self, size_bytes: int) -> bool:
        """Whether a ``maxmemory`` that is found was set by us, and nobody had answered to that."""
        return self._unanswered.has(size_bytes)

    def settle(self) -> None:
        """Wait before the end for what it was asked, if it still answers; then set at once."""
        self._sets_again_at = -math.inf
        if self._reachability.is_up:
            self._reading.wait(TIMEOUT_SECONDS)
            self.take()

    def close(self) -> None:
        """Ask nothing more, and let others have it."""
        self._reading.close()
        self._server.close()
        self._lock.release()

    def _lose(self, error: Exception) -> None:
        if not isinstance(error, ServerDownError):
            self._server.close()
        if self._reachability.lose(error):
            self._metrics.servers_lost.labels(self.name).inc()
            how = "is out of reach"
            if not isinstance(error, ServerDownError):
                how = "answers, but cannot be read"
            log.warning("server %s %s, the others go on: %s", self.name, how, error)
