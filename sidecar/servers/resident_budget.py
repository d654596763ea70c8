"""How much ``maxmemory`` the servers may have together, for resident memory to stay in bounds.

``maxmemory`` counts neither fragmentation, nor the program, nor replicas' buffers, nor what a fork
copies; the machine counts all of it. How much that is differs by load and allocator, so it is
measured, again and again.

* Above the aim, the excess is taken at once. Pages come back after a while: what was taken has
  ``SETTLE_SECONDS`` to show before more is taken, unless the excess grows. Where a quarter was
  taken and nothing comes back, no more is: that would empty caches and free nothing.
* Below it, there is room for (aim - idle programs) / (pages for each byte in use), as it was when
  the servers were full last. A load that stays as it is cannot exceed the aim by that, and memory
  that is free for now inside of pages does not count.

The size rises only after there was room for it for ``HOLD_SECONDS``, by half of the least room of
that time, and not for less than ``LEAST_RISE_RATIO``. So it can come down often while a load grows,
and does not go up and down with one that moves.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.servers.server_reading import ServerReading
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
# Of an idle server: the program, its libraries, the sampler's queue.
IDLE_BYTES = 6 << 20
# After so much of R was taken, a quarter of it has to have come back.
VAIN_RATIO = 0.25


class Headroom(NamedTuple):
    """Resident memory above what ``maxmemory`` counts, in bytes: pages copied by forks, the program
    and fragmentation, buffers of replicas and of the append-only file."""

    forks: int = 0
    fragmentation: int = 0
    clients: int = 0


def headroom_of(readings: Sequence[ServerReading]) -> Headroom:
    """Of all servers together, as they are now; forks as large as their last one."""
    clients = sum(reading.not_counted_bytes for reading in readings)
    return Headroom(
        forks=sum(reading.copied_bytes for reading in readings),
        fragmentation=sum(
            max(0, one.rss_bytes - one.counted_bytes - one.not_counted_bytes) for one in readings
        ),
        clients=clients,
    )


class ResidentBudget:
    """``look`` once a second or so, with all servers that answer. Sizes in bytes, times in seconds
    of any clock that does not jump.

    Attributes:
        bytes: that ``maxmemory`` may sum to; ``None`` before the first look.
        is_vain: resident memory is above what is allowed, and taking more was in vain.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pages_ratio = 1.0
        self._most_used = 0
        # Since when there is room to rise, and the least of it.
        self._room_since: float | None = None
        self._least_room = math.inf
        # While above the aim: resident memory and budget at the start, what was taken for which
        # excess, and when.
        self._exceeded: tuple[float, float] | None = None
        self._dealt_with = 0.0
        self._taken_at = -math.inf
        self.bytes: int | None = None
        self.is_vain = False

    def look(
        self,
        readings: Sequence[ServerReading],
        allowed_bytes: int,
        now_seconds: float,
        *,
        acts: bool = True,
    ) -> int | None:
        """What ``maxmemory`` may sum to from now on; ``None`` if no server ever answered.

        Unless it ``acts``, nobody sets sizes by that: it is what would fit, and nothing is taken.
        """
        if not readings:
            return self.bytes
        resident = sum(reading.rss_bytes for reading in readings)
        limits = sum(reading.maxmemory_bytes or math.inf for reading in readings)
        aim = (1 - MARGIN_RATIO) * allowed_bytes - headroom_of(readings).forks
        idle = len(readings) * IDLE_BYTES
        # Pages lag behind what was taken: too many of them for a while.
        if not acts or (resident <= aim and now_seconds - self._taken_at >= SETTLE_SECONDS):
            used = sum(reading.counted_bytes for reading in readings)
            self._learn_pages(used, limits, resident - idle)
        could_be = max(0.0, (aim - idle) / self._pages_ratio)
        budget = min(allowed_bytes, could_be if self.bytes is None else self.bytes)
        if not acts:
            self._exceeded, self.is_vain = None, False
            budget = min(allowed_bytes, could_be)
        elif resident > aim:
            budget = self._lowered(resident, aim, min(budget, limits), now_seconds)
        else:
            self._exceeded, self.is_vain = None, False
            budget = self._raised(min(budget, could_be), could_be, allowed_bytes, now_seconds)
        self.bytes = max(0, int(budget))
        return self.bytes

    def _learn_pages(self, used: int, limits: float, pages: float) -> None:
        is_fullest = used >= max(self._most_used, START_RATIO * limits)
        self._most_used = max(self._most_used, used)
        if is_fullest or used >= FULL_RATIO * limits:
            self._pages_ratio = max(1.0, pages / used)

    def _lowered(self, resident: float, aim: float, budget: float, now_seconds: float) -> float:
        self._room_since = None
        excess = resident - aim
        resident_then, budget_then = self._exceeded or (resident, budget)
        self._exceeded = max(resident, resident_then), budget_then
        if now_seconds - self._taken_at >= SETTLE_SECONDS:
            self._dealt_with, self._taken_at = 0.0, now_seconds
            self._judge(self._exceeded[0] - resident, budget_then - budget, resident, aim)
        if self.is_vain or excess <= self._dealt_with:
            return budget
        taken = max(excess - self._dealt_with, LEAST_FALL_RATIO * aim)
        self._dealt_with += taken
        return budget - taken

    def _judge(self, came_back: float, taken: float, resident: float, aim: float) -> None:
        """Whether what was taken since the aim was exceeded was in vain."""
        is_vain = taken > VAIN_RATIO * aim and came_back < VAIN_RATIO * taken
        if is_vain and not self.is_vain:
            self._metrics.rss_budget_given_up.inc()
            log.warning(
                "resident memory stays at %s, above memory.rss_budget, though maxmemory was "
                "lowered by %s: it is lowered no further",
                format_size(resident),
                format_size(taken),
            )
        self.is_vain = is_vain

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
