"""Works out how much ``maxmemory`` the servers may have together, for resident memory to stay in
bounds.

``maxmemory`` counts neither fragmentation, nor the program, nor replicas' buffers, nor what a fork
copies; the machine counts all of it. How much that is differs by load and allocator, so it is
measured, again and again.

* Above the limit, what exceeds the aim a little below it is taken at once, from what is in force.
  So what was decided before and is not yet in force is not taken twice. It is taken as keys: each
  of them has as many pages as it has now. Pages come back after a while: nothing more is taken for
  ``SETTLE_SECONDS``, nor as long as they go on coming back, unless the excess grows. Servers that
  shrank defragment until then (``waits_for_pages``).
* Where some of it was taken, and hardly anything comes back, ``maxmemory`` is no lever for resident
  memory. What was taken is given back, and nothing more is taken until it has grown further.
* Below the limit nothing is taken. There is room for (aim - idle programs) / (pages for each byte
  in use), as it was when the servers were full last. A load that stays as it is cannot exceed the
  aim by that. Memory that is free for now inside of pages does not count.

The size rises only after there was room for it for ``HOLD_SECONDS``. It rises by half of the least
room of that time, and not for less than ``LEAST_RISE_RATIO``. So it can come down often while a
load grows, and does not go up and down with one that moves. What it lost, as to clients' buffers or
a script's garbage, did fit before. What pages leave room for of that comes back after
``SETTLE_SECONDS``, and after twice as long each time that resident memory was too much again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

# Allocators give pages back after seconds (jemalloc: 10), defragmentation takes longer.
SETTLE_SECONDS = 30.0
HOLD_SECONDS = 300.0
# Only servers as full as this tell how many pages they need when they are full; and those that are
# filled for the first time, from this on.
FULL_RATIO = 0.8
START_RATIO = 0.25
# Resident memory moves by so much of itself without a cause.
MARGIN_RATIO = 0.02
LEAST_RISE_RATIO = 0.02
LEAST_FALL_RATIO = 0.005
# Servers that fill for the first time are as full as they ever were, but for so much.
STILL_FILLS_RATIO = 0.98
# An idle server has at most so much: the program, its libraries, the sampler's queue.
IDLE_BYTES = 6 << 20
# Pages go on coming back while ``SETTLE_SECONDS`` bring so much of what is still too much.
COMES_BACK_RATIO = 0.25
# Once so much of the aim was taken, a quarter of it must have come back.
TRIAL_RATIO = 0.05
VAIN_RATIO = 0.25


class Headroom(NamedTuple):
    """Counts resident memory above what ``maxmemory`` counts, in bytes: pages copied by forks, the
    program and fragmentation, buffers of replicas and of the append-only file."""

    forks: int = 0
    fragmentation: int = 0
    clients: int = 0


def headroom_of(readings: Sequence[ServerReading]) -> Headroom:
    """Return the headroom of all servers now; forks are as large as their last one."""
    clients = sum(reading.not_counted_bytes for reading in readings)
    return Headroom(
        # A fork copies no more than there is.
        forks=sum(min(reading.copied_bytes, reading.rss_bytes) for reading in readings),
        fragmentation=sum(
            max(0, one.rss_bytes - one.counted_bytes - one.not_counted_bytes) for one in readings
        ),
        clients=clients,
    )


class ResidentBudget:
    """Tells what ``maxmemory`` may sum to; call ``look`` once a second or so, with all servers that
    answer. Sizes are bytes, times seconds of any clock that does not jump.

    Attributes:
        bytes: that ``maxmemory`` may sum to; ``None`` before the first look.
        is_vain: resident memory is above what is allowed, and taking more was in vain.
    """

    def __init__(self, metrics: Metrics, before_fall_bytes: int = 0) -> None:
        """``before_fall_bytes``: what there was before a fall that this process has not seen."""
        self._metrics = metrics
        self._pages_ratio = 1.0
        self._idle_bytes: float | None = None
        self._most_used = 0
        # Since when there is room to rise, and the least of it.
        self._room_since: float | None = None
        self._least_room = math.inf
        # From what it fell; since when a part of that would fit, and the least of that time; how
        # long that has to last; and when a part came back last.
        self._acts, self._fell_from = False, before_fall_bytes
        self._fits_since: float | None = None
        self._least_fitting = math.inf
        self._patience_seconds, self._returned_at = SETTLE_SECONDS, -math.inf
        # While above the limit: the most of resident memory, and at the start, what was in force
        # and what was allowed.
        self._exceeded: tuple[float, float, float] | None = None
        # Since when, and from which resident memory on, pages are waited for, and how much of the
        # excess was taken or is coming back.
        self._waits_since, self._resident_then, self._dealt_with = -math.inf, 0.0, 0.0
        self.bytes: int | None = None
        self.is_vain = False

    @property
    def waits_for_pages(self) -> bool:
        """Whether resident memory is above what is allowed, and may come down."""
        return self._exceeded is not None and not self.is_vain

    def look(
        self,
        readings: Sequence[ServerReading],
        allowed_bytes: int,
        now_seconds: float,
        *,
        least_bytes: int = 0,
        acts: bool = True,
        unread_bytes: int = 0,
    ) -> int | None:
        """Return what ``maxmemory`` may sum to from now on, at least ``least_bytes``; ``None`` if
        no server ever answered. Unless it ``acts``, nobody sets sizes by that: it is what would
        fit. Who does not answer keeps the ``unread_bytes`` that were planned at a start: nobody
        knows what its pages are."""
        if not readings:
            return self.bytes
        resident = sum(reading.rss_bytes for reading in readings)
        used = sum(reading.counted_bytes for reading in readings)
        limits = sum(reading.size_bytes for reading in readings)
        self._begin(acts=acts)
        forks = headroom_of(readings).forks
        aim = (1 - MARGIN_RATIO) * allowed_bytes - forks
        is_above = resident > allowed_bytes - forks
        # Pages lag behind what was taken: too many of them for a while.
        lags = now_seconds - self._waits_since < SETTLE_SECONDS
        if not acts or self.bytes is None or not (is_above or lags):
            self._learn_pages(readings, used, resident)
        idle = self._most_idle(readings)
        could_be = max(0.0, (aim - idle) / self._pages_ratio)
        if not acts or not is_above:
            self._exceeded, self.is_vain = None, False
        if not acts:
            budget = could_be
        elif is_above:
            self._note_above(limits + unread_bytes, now_seconds)
            pages_ratio = max(1.0, (resident - idle) / max(1, used))
            in_force = self._in_force(limits, used)
            lowered = self._lowered((resident, aim), pages_ratio, in_force, now_seconds)
            budget = min(math.inf if self.bytes is None else self.bytes, lowered)
        elif self.bytes is None:
            budget = max(could_be, limits + unread_bytes)
        else:
            budget = self._raised(self.bytes, could_be, allowed_bytes, now_seconds)
            unfilled = max(0, self.bytes - used)
            budget = max(budget, self.bytes + self._back(aim - resident - unfilled, now_seconds))
        self._most_used = max(self._most_used, used)
        self.bytes = max(least_bytes, int(min(allowed_bytes, budget)))
        return self.bytes

    def _begin(self, *, acts: bool) -> None:
        if acts and not self._acts:  # what it would have been is not in force
            self.bytes = None
        self._acts = acts

    def _most_idle(self, readings: Sequence[ServerReading]) -> float:
        most = len(readings) * IDLE_BYTES
        return most if self._idle_bytes is None else min(most, self._idle_bytes)

    def _learn_pages(self, readings: Sequence[ServerReading], used: int, resident: int) -> None:
        limits = sum(reading.maxmemory_bytes or math.inf for reading in readings)
        is_fullest = used >= max(1, self._most_used, START_RATIO * limits)
        if is_fullest or used >= FULL_RATIO * limits:
            # No byte in use has less than a byte of pages.
            self._idle_bytes = max(0, resident - used)
            self._pages_ratio = max(1.0, (resident - self._most_idle(readings)) / used)

    def _in_force(self, limits: int, used: int) -> int:
        """Return what the servers may fill, or have filled if they are to fill no more. At a start
        nobody knows that, and who is empty for now may be as full as its limit again."""
        still_fill = self.bytes is not None and used >= STILL_FILLS_RATIO * self._most_used
        return min(limits, used) if still_fill else limits

    def _lowered(
        self,
        resident_and_aim: tuple[float, float],
        pages_ratio: float,
        in_force: float,
        now_seconds: float,
    ) -> float:
        """Return ``in_force`` or less; infinity where nothing more is to be taken for now."""
        self._room_since = None
        resident, aim = resident_and_aim
        if self.is_vain:
            if resident <= (1 + MARGIN_RATIO) * self._resident_then:
                return math.inf
            self._exceeded, self.is_vain, self._dealt_with = None, False, 0.0
        excess = resident - aim
        start = (resident, in_force, in_force if self.bytes is None else self.bytes)
        resident_before, in_force_before, bytes_before = self._exceeded or start
        self._exceeded = max(resident, resident_before), in_force_before, bytes_before
        waited = now_seconds - self._waits_since
        if waited >= SETTLE_SECONDS:
            came_back = self._resident_then - resident
            goes_on = came_back >= COMES_BACK_RATIO * excess and waited < 2 * SETTLE_SECONDS
            self._waits_since, self._resident_then = now_seconds, resident
            self._dealt_with = excess if goes_on else 0.0
            if not goes_on:
                taken = in_force_before - in_force
                came_back = self._exceeded[0] - resident
                if taken > TRIAL_RATIO * aim and came_back < VAIN_RATIO * taken:
                    self._give_back(bytes_before, taken, resident)
                    return math.inf
        if excess <= self._dealt_with:
            return math.inf
        if self._dealt_with and self.bytes is not None:
            in_force = min(in_force, self.bytes)
        taken = max(excess - self._dealt_with, LEAST_FALL_RATIO * aim)
        self._dealt_with += taken
        return in_force - taken / pages_ratio

    def _give_back(self, bytes_before: float, taken: float, resident: float) -> None:
        """Give back what was taken since the limit was exceeded: it was taken in vain."""
        self.is_vain = True
        self.bytes = int(bytes_before)
        self._metrics.rss_budget_given_up.inc()
        log.warning(
            "resident memory stays at %s, above memory.rss_budget, though maxmemory was lowered by "
            "%s: that is given back",
            format_size(resident),
            format_size(taken),
        )

    def _note_above(self, limits: int, now_seconds: float) -> None:
        self._fell_from = max(self._fell_from, self.bytes or limits)
        self._fits_since = None
        if self._exceeded is None:
            comes_again = now_seconds - self._returned_at < HOLD_SECONDS
            doubled = min(2 * self._patience_seconds, HOLD_SECONDS)
            self._patience_seconds = doubled if comes_again else SETTLE_SECONDS

    def _back(self, room: float, now_seconds: float) -> float:
        """Return what comes back of what was lost, where there are so many pages more than are
        promised already."""
        lost = self._fell_from - (self.bytes or 0)
        fitting = min(lost, room)
        if fitting <= 0 or fitting < min(lost, LEAST_RISE_RATIO * self._fell_from):
            self._fits_since = None
            return 0
        if self._fits_since is None:
            self._fits_since, self._least_fitting = now_seconds, fitting
        self._least_fitting = min(self._least_fitting, fitting)
        if now_seconds - self._fits_since < self._patience_seconds:
            return 0
        self._fits_since, self._returned_at = None, now_seconds
        return self._least_fitting

    def _raised(
        self, budget: float, could_be: float, allowed_bytes: int, now_seconds: float
    ) -> float:
        room = could_be - budget
        if room < LEAST_RISE_RATIO * allowed_bytes:
            self._room_since = None
            return budget
        if self._room_since is None:
            self._room_since, self._least_room = now_seconds, room
        self._least_room = min(self._least_room, room)
        if now_seconds - self._room_since < HOLD_SECONDS:
            return budget
        self._room_since = None
        return budget + self._least_room / 2
