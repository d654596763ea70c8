"""Says who waits in a lane, and who is answered there. Only the server's loop touches it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from solver_lambda.http.connection import Connection
from solver_lambda.http.message import crowded
from solver_lambda.http.router import Lane


class LaneQueue:
    """Holds the connections of one lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._most_of_one = lane.most_of_one or lane.most + lane.most_waiting
        self._most_waiting_of_one = lane.most_waiting_of_one or self._most_of_one
        self._waiting: deque[Connection] = deque()
        self._answering: list[Connection] = []

    def add(self, connection: Connection) -> Connection | None:
        """Let it wait for ``take``. Returns the one that has to leave for it: the last of the party
        with the most that wait. Raises RefusedError: there is no place for it."""
        pushed_out = None
        if not self._may_begin(connection):
            own = _count(self._waiting, connection)
            if own >= self._most_waiting_of_one:
                raise crowded(f"{self._most_of_one} such requests of yours are being answered")
            if len(self._waiting) >= self._lane.most_waiting:
                crowd = Counter(one.peer.party for one in self._waiting)
                pushed_out = max(reversed(self._waiting), key=lambda one: crowd[one.peer.party])
                if crowd[pushed_out.peer.party] <= own + 1:
                    raise crowded(
                        f"{self._lane.most} such requests are being answered, the most at a time"
                    )
                self._waiting.remove(pushed_out)
        self._waiting.append(connection)
        return pushed_out

    def take(self) -> Connection | None:
        """Return the one that is answered next, until ``done``, of a party with the fewest that
        are; ``None``: none may be now."""
        may_begin = filter(self._may_begin, self._waiting)
        found = min(may_begin, key=lambda one: _count(self._answering, one), default=None)
        if found is not None:
            self._waiting.remove(found)
            self._answering.append(found)
        return found

    def done(self, connection: Connection) -> None:
        """Take out a connection that has its answer."""
        self._answering.remove(connection)

    def give_up(self, connection: Connection) -> None:
        """Take out a connection that does not wait any more."""
        self._waiting.remove(connection)

    def _may_begin(self, connection: Connection) -> bool:
        return (
            len(self._answering) < self._lane.most
            and _count(self._answering, connection) < self._most_of_one
        )


def _count(connections: Iterable[Connection], like: Connection) -> int:
    return sum(one.peer.party == like.peer.party for one in connections)
