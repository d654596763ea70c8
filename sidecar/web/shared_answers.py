"""Gives one answer to all who ask at a time, so that many readers cost about as much as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")
# The pause before the next one is so many times what the last one took to make.
_REST = 4.0
_LONGEST_REST_SECONDS = 1.0


class LatestAnswer(Generic[Made]):
    """Whoever calls waits for nobody: as long as a ``SharedAnswer`` would rest, he gets what was
    made last. Making, which waits for nobody, takes a fifth of one core at most for each thread
    that calls."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._last: tuple[float, Made] | None = None

    def __call__(self) -> Made:
        """Return what was made lately, or make it anew. Raises what making raises."""
        last, began = self._last, time.monotonic()
        if last is not None and began < last[0]:
            return last[1]
        made = self._make()
        self._last = (_rested_at(began), made)
        return made


def _rested_at(began: float) -> float:
    ended = time.monotonic()
    return ended + min(_LONGEST_REST_SECONDS, _REST * (ended - began))


class PacedAnswers:
    """Lets one make at a time, with rests: what callers have made takes a fifth of one core at
    most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rests_until = 0.0

    def __call__(self, make: Callable[[], Made]) -> Made:
        """Make something after a rest. Raises what making raises."""
        with self._lock:
            time.sleep(max(0.0, self._rests_until - time.monotonic()))
            began = time.monotonic()
            try:
                return make()
            finally:
                self._rests_until = _rested_at(began)


class SharedAnswer(Generic[Made]):
    """Whoever calls gets what was made after the call: waiting for each other, callers share it.
    Nobody gets anything stale, and making takes a fifth of one core at most."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._paced = PacedAnswers()
        self._begun = 0
        self._last: tuple[int, Made] | None = None

    def __call__(self) -> Made:
        """Return what was made after the call. Raises what making raises."""
        wanted = self._begun + 1
        with self._lock:
            if self._last is not None and self._last[0] >= wanted:
                return self._last[1]
            number, made = self._paced(self._begin)
            self._last = (number, made)
            return made

    def _begin(self) -> tuple[int, Made]:
        self._begun += 1
        return self._begun, self._make()
