"""Estimates what our questions cost a server, and ourselves."""

from __future__ import annotations

import time
from collections.abc import Callable

from sidecar.look.server_questions import CannotBeLookedAtError, LookedServer, Told

# Between two rounds, at least; the server's clock has seconds.
INTERVAL_SECONDS = 1.0
# Of the time that a key stays, between two rounds.
_OF_AGE = 0.01
_MOST_INTERVAL_SECONDS = 10.0
# Whatever a round cost: what others ask of the server counts for its commands, too.
MOST_PAUSE_SECONDS = 60.0
# A core of a server has so many microseconds in a second.
_SECOND = 1e6
# Until a server has told what a command takes.
_FIRST_USEC = 2.0
# To read and answer a question, which no server counts as its command's time. Redis 7.0 and 8.2 and
# Valkey 8.1 and 9.1 took between .5 and .9 more than they counted, .1 to .2, for each of 64 at once
# (processor time of the whole server, on a machine of 2026).
_UNCOUNTED_USEC = 0.8


def pause_seconds(
    age_seconds: float,
    spent_seconds: float,
    most_cost_ratio: float,
    interval_seconds: float = INTERVAL_SECONDS,
) -> float:
    """Return the pause before the next round. It is short beside the ``age`` of most keys. The last
    round must have cost no more than this share of a core, as far as ``MOST_PAUSE_SECONDS`` are."""
    wait_seconds = max(interval_seconds, min(_OF_AGE * age_seconds, _MOST_INTERVAL_SECONDS))
    return max(wait_seconds, min(spent_seconds / most_cost_ratio, MOST_PAUSE_SECONDS))


def within_own_time(is_over: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Return the same, for so long as it takes of a core of ours; then it raises
    CannotBeLookedAtError."""
    until_seconds = time.thread_time() + seconds

    def is_over_now() -> bool:
        if time.thread_time() > until_seconds:
            raise CannotBeLookedAtError("takes us too long to ask of its keys")
        return is_over()

    return is_over_now


class QuestionCost:
    """Estimates what our questions cost one server, in seconds of its processor. Each of our
    commands counts as such commands took it lately on average (``INFO commandstats``), and with
    what it takes to read and answer one, which no server counts.

    Attributes:
        seconds: since the look began.
    """

    def __init__(self, server: LookedServer, told: Told) -> None:
        self._server = server
        self._before = told
        self._asked = dict(server.asked)
        self._each: dict[str, float] = {}
        self.seconds = 0.0

    def add(self, told: Told) -> float:
        """Count what was asked since the last time; what that cost."""
        spent = 0.0
        for name, asked in self._server.asked.items():
            calls = told.calls.get(name, 0) - self._before.calls.get(name, 0)
            usec = told.usec.get(name, 0.0) - self._before.usec.get(name, 0.0)
            if calls > 0 and usec >= 0:
                self._each[name] = usec / calls
            each = self._each.get(name, _FIRST_USEC) + _UNCOUNTED_USEC
            spent += (asked - self._asked.get(name, 0)) * each / _SECOND
        self._before, self._asked = told, dict(self._server.asked)
        self.seconds += spent
        return spent
