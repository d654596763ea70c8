"""Notices sizes that an operator sets by hand while the sidecar runs: they hold, until told
otherwise."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sidecar.base.log_setup import event_of
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.server_watch import ServerWatch
from sidecar.state.control_state import Hold
from sidecar.state.state_store import StateStore
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

# Told of each: the server, and a sentence.
TellHand = Callable[[str, str], None]
# So many of a server are told at once; more within the time become one, when it is over.
TOLD_AT_ONCE = 3
GATHER_SECONDS = 60.0
# A person gives a server no more sizes within that time; each one is noted in the state file.
_MOST_HOLDS = 10
# Somebody who sets a size again so soon after it was put back does so over and over.
CONTEST_SECONDS = 60.0


class _Gathered:
    """Has what was told of one server since ``began_at`` (of a clock that does not jump), and the
    last of what was not."""

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.told = self.more = 0
        self.last_words = ""


class _Contest(NamedTuple):
    """Says how often a size that was put back has been set again, when last, and to what, in
    words."""

    times: int
    last_at: float
    words: str


class ManualResizes:
    """Notices sizes that are set by hand on one node. ``holds``: such a size stays; otherwise the
    planned one is put back.

    Args:
        minima_bytes: by server, as they are now; a size that leaves the others less than theirs
            cannot stay.
    """

    def __init__(
        self,
        store: StateStore,
        budget_bytes: Callable[[], int],
        minima_bytes: Callable[[], Mapping[str, int]],
        *,
        holds: bool,
        tell: TellHand = lambda _name, _words: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._budget_bytes = budget_bytes
        self._minima_bytes = minima_bytes
        self._holds = holds
        self._tell = tell
        self._now = now
        self._gathered: dict[str, _Gathered] = {}
        self._contests: dict[str, _Contest] = {}
        self._held_at: dict[str, deque[float]] = {}

    def note(
        self,
        name: str,
        size_bytes: int,
        fixed_bytes: Mapping[str, int],
        least_bytes: Mapping[str, int] | None = None,
    ) -> bool:
        """Note that somebody has set this (0: no limit); return whether it stays. ``fixed_bytes``:
        the sizes of servers that cannot make room; ``least_bytes``: with less, others would refuse
        writes."""
        now = self._store.now
        if size_bytes == now.targets_bytes.get(name) and name not in now.control.held:
            return True  # as planned, so there is nothing to hold
        said = f"somebody set maxmemory of {name} to {_words(size_bytes)} by hand"
        needed = least_bytes or {}
        least = {
            other: max(low, needed.get(other, 0)) for other, low in self._minima_bytes().items()
        }
        least |= fixed_bytes
        others = sum(size for other, size in least.items() if other != name)
        fits = 0 < size_bytes <= self._budget_bytes() - others
        if stays := self._holds and fits and self._take_hold(name):
            words = f"{said}; it stays until 'spreds resume'"
            self._hold(name, Hold(size_bytes, time.time()))
        else:
            why = "the planned size"
            if self._holds and fits:
                why = "it changes too often to stay: it"
            elif self._holds:
                why = "that leaves the others too little: it"
            words = f"{said}; {why} is put back {self._when(name, size_bytes)}"
        log.warning("%s", words, extra=event_of(name))
        self._gather(name, words)
        return stays

    def _take_hold(self, name: str) -> bool:
        """Note that its size is to stay; return ``False`` where that was so too often lately."""
        now = self._now()
        times = self._held_at.setdefault(name, deque(maxlen=_MOST_HOLDS))
        if len(times) == _MOST_HOLDS and now - times[0] < GATHER_SECONDS:
            return False
        times.append(now)
        return True

    def held_bytes(self, name: str) -> int | None:
        """Return the size that somebody gave a server by hand before, where sizes may be set."""
        control = self._store.now.control
        hold = control.held.get(name) if control.sets_sizes else None
        return hold.bytes if hold else None

    def tell_gathered(self, *, all_of_them: bool = False) -> None:
        """Tell in one sentence what came too fast, when its time is over; to be repeated."""
        now = self._now()
        for name, gathered in list(self._gathered.items()):
            if all_of_them or now - gathered.began_at >= GATHER_SECONDS:
                del self._gathered[name]
                if gathered.more:
                    times = f"{gathered.more} times more" if gathered.more > 1 else "once more"
                    self._tell(name, f"{times} within a minute, the last: {gathered.last_words}")

    def contests(self) -> list[str]:
        """Return a sentence for each server whose size somebody keeps setting in vain."""
        if self._store.now.control.pause:
            return []
        since = self._now() - CONTEST_SECONDS
        return [
            f"somebody keeps setting maxmemory of {name} ({contest.times} times, the last to "
            f"{contest.words}): it is put back each time, and the others keep their sizes; find "
            "out who does it, or 'spreds pause'"
            for name, contest in self._contests.copy().items()
            if contest.times > 1 and contest.last_at >= since
        ]

    def _when(self, name: str, size_bytes: int) -> str:
        """Say when it is put back, and how often that has been so."""
        now, last = self._now(), self._contests.get(name)
        again = last is not None and now - last.last_at < CONTEST_SECONDS
        times = last.times + 1 if last is not None and again else 1
        self._contests[name] = _Contest(times, now, _words(size_bytes))
        when = "when the pause is over" if self._store.now.control.pause else "now"
        return f"{when} ({times} times in a row)" if times > 1 else when

    def _gather(self, name: str, words: str) -> None:
        gathered = self._gathered.setdefault(name, _Gathered(self._now()))
        if gathered.told < TOLD_AT_ONCE:
            gathered.told += 1
            self._tell(name, words)
        else:
            gathered.more += 1
            gathered.last_words = words

    def _hold(self, name: str, hold: Hold) -> None:
        with self._store.update() as state:
            held = {**state.control.held, name: hold}
            state.control = replace(state.control, held=held)


def _words(size_bytes: int) -> str:
    return format_size(size_bytes) if size_bytes else "no limit"


def _put_back_by_hand(watch: ServerWatch, held_bytes: int | None) -> bool:
    """Put back after a slip what it was given by hand, for which the others made room."""
    if held_bytes is None:
        return False
    try:
        watch.set_maxmemory(held_bytes)
    except (ServerDownError, ServerRefusedError) as error:
        log.warning("server %s cannot be put back to what it was given: %s", watch.name, error)
        return False
    return True


def note_manual_resizes(
    watches: Mapping[str, ServerWatch], manual_resizes: ManualResizes | None, *, counts: bool = True
) -> None:
    """Take note of all sizes that somebody else has set; without ``manual_resizes`` none stays.
    Unless it ``counts``, what somebody sets is what is wanted."""
    fixed = {
        name: watch.last.maxmemory_bytes
        for name, watch in watches.items()
        if watch.last is not None and (watch.is_held or not watch.evicts)
    }
    least = {name: watch.least_bytes() or 0 for name, watch in watches.items()}
    for name, watch in watches.items():
        size_bytes = watch.take_size_by_hand()
        if size_bytes is None or not watch.evicts or not counts:
            continue
        if manual_resizes is not None and manual_resizes.note(name, size_bytes, fixed, least):
            fixed[name] = size_bytes
        elif manual_resizes is None or not _put_back_by_hand(
            watch, manual_resizes.held_bytes(name)
        ):
            watch.contest(size_bytes)
    if manual_resizes is not None:
        manual_resizes.tell_gathered()
