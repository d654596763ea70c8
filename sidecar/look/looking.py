"""Looks at several servers side by side, until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sidecar.config.node import ServerConfig
from sidecar.config.sampling import LOOK_COST_RATIO
from sidecar.look.idle_time_sampler import MOST_KEYS
from sidecar.look.question_cost import INTERVAL_SECONDS
from sidecar.look.server_look import Seen, ServerLook
from sidecar.look.server_questions import CannotBeLookedAtError
from sidecar.servers.connection.server_connection import NONSENSE

# The share of a look for finding one server's keys, while the others wait; and the least time.
_ROUND_SHARE, _LEAST_ROUND_SECONDS = 0.1, 5.0
_MOST_AT_ONCE = 16
# What a server answers to a password where it has none.
_NO_PASSWORD = "without any password configured"  # noqa: S105


class Refused(NamedTuple):
    """Names a server that could not be looked at."""

    name: str
    why: str
    size_bytes: int
    url: str = ""


class Looking:
    """Looks at several servers. Times are of ``clock``, in seconds; ``wait`` waits so many, or
    less. ``believed``: users who alone may listen at their addresses; ``None``: anybody may.

    Attributes:
        looks: of the servers that can be looked at.
        refused: the others.
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
        most_keys: int = MOST_KEYS,
        most_cost: float = LOOK_COST_RATIO,
        interval_seconds: float = INTERVAL_SECONDS,
        believed: frozenset[int] | None = None,
    ) -> None:
        self._clock, self._wait = clock, wait
        self._begin = partial(
            ServerLook,
            most_keys=most_keys,
            most_cost=most_cost,
            interval_seconds=interval_seconds,
            believed=believed,
        )
        self.looks: list[ServerLook] = []
        self.refused: list[Refused] = []
        runs: dict[str, str] = {}
        # At once: each of them may let us wait as long as an answer may take.
        with ThreadPoolExecutor(max(1, min(_MOST_AT_ONCE, len(servers)))) as pool:
            begun = list(pool.map(self._look_at, servers))
        for server, look in zip(servers, begun, strict=True):
            if isinstance(look, CannotBeLookedAtError):
                self._refuse(server, look)
                continue
            other = runs.setdefault(look.told.reading.run_id, server.name)
            if other != server.name:
                look.close()
                self._refuse(server, CannotBeLookedAtError(f"is the same server as {other}"))
                continue
            self.looks.append(look)

    def _look_at(self, server: ServerConfig) -> ServerLook | CannotBeLookedAtError:
        try:
            try:
                return self._begin(server)
            except CannotBeLookedAtError as error:
                if server.password is None or _NO_PASSWORD not in f"{error} {error.__cause__}":
                    raise
                open_to_all = replace(server, password=None, username=None, password_from=None)
                return self._begin(open_to_all)
        except CannotBeLookedAtError as error:
            return error

    def _refuse(self, server: ServerConfig, error: CannotBeLookedAtError) -> None:
        self.refused.append(Refused(server.name, str(error), error.size_bytes, server.url))

    @property
    def size_bytes(self) -> int:
        """Return the size of all servers that are looked at, together."""
        return sum(look.told.reading.size_bytes for look in self.looks)

    def run(
        self,
        look_seconds: float,
        budget_bytes: int,
        is_stopped: Callable[[], bool],
        progress: Callable[[float, Sequence[ServerLook]], None],
    ) -> float:
        """Look until the time is over, or ``is_stopped``; how long it was. ``progress`` is told
        after each round how long it has been."""
        began = self._clock()
        for look in self.looks:
            look.begin(budget_bytes, look_seconds, began)

        def is_over() -> bool:
            return is_stopped() or self._clock() - began >= look_seconds

        while self.looks and not is_over():
            now = self._clock()
            due = min(self.looks, key=lambda look: look.due)
            if due.due > now:
                self._wait(min(due.due, began + look_seconds) - now)
                continue
            try:
                until = now + max(_LEAST_ROUND_SECONDS, look_seconds * _ROUND_SHARE)
                due.round(now, lambda until=until: is_over() or self._clock() >= until)  # type: ignore[misc]
            except (CannotBeLookedAtError, ArithmeticError, *NONSENSE) as error:
                due.close()
                self.looks.remove(due)
                if not isinstance(error, CannotBeLookedAtError):  # figures that no server has
                    error = CannotBeLookedAtError(f"its answers make no sense: {error}")
                self._refuse(due.config, error)
                continue
            # A server that answers slowly gets no more time than each of the others.
            ended = self._clock()
            due.due = max(due.due, ended + (len(self.looks) - 1) * (ended - now))
            progress(ended - began, self.looks)
        return self._clock() - began

    def seen(self) -> list[Seen]:
        """Return what is known of each."""
        now = self._clock()
        return [look.seen(now) for look in self.looks]

    def close(self) -> None:
        """Hang up."""
        for look in self.looks:
            look.close()
