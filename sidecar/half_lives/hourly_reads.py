"""Counts how much a server was read at each hour of the last week, and so what to expect of the
next."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

HOUR_SECONDS = 3600.0
_HOURS_A_WEEK = 168
# How long ago it was the same hour: yesterday, and on this day of the week; shape (2,).
AGO_HOURS = (24, 168)
# The next hours count together, for what moves has to be read again. With one hour alone memory
# goes to and fro; with eight it is late (research/gain.md).
_AHEAD_HOURS = 3.0
# So much of those hours must be known.
_LEAST_KNOWN = 0.5


class HourlyReads:
    """Counts one server's reads by the hours of Unix time: where clocks change, yesterday is an
    hour off once.

    Attributes:
        sums: which hour since 1970, reads and seconds, each hour in its place; shape (168, 3).
    """

    def __init__(self) -> None:
        self.sums: npt.NDArray[np.float64] = np.zeros((_HOURS_A_WEEK, 3))

    def add(self, at_seconds: float, reads: float, seconds: float) -> None:
        """Add reads of a time that ended at this Unix time. They count for the hour at its
        middle."""
        hour = math.floor((at_seconds - seconds / 2) / HOUR_SECONDS)
        place = self.sums[hour % _HOURS_A_WEEK]
        if place[0] != hour:
            place[:] = hour, 0.0, 0.0
        place[1:] += reads, seconds

    def ahead(self, at_seconds: float, ago_hours: int) -> float | None:
        """Return the reads a second to expect from this Unix time on, as they were so many hours
        ago; ``None`` where that is not known."""
        first = at_seconds / HOUR_SECONDS - ago_hours
        reads = known = 0.0
        for hour in range(math.floor(first), math.ceil(first + _AHEAD_HOURS)):
            share = min(hour + 1, first + _AHEAD_HOURS) - max(hour, first)
            at, counted, seconds = self.sums[hour % _HOURS_A_WEEK]
            if at == hour and seconds > 0:
                reads += share * counted / seconds
                known += share
        return reads / known if known >= _LEAST_KNOWN * _AHEAD_HOURS else None

    def restore(self, sums: npt.NDArray[np.float64]) -> None:
        """Take ``sums`` of another process. Sums that cannot be right are ignored."""
        if sums.shape != self.sums.shape or sums.dtype != self.sums.dtype:
            return
        if np.isfinite(sums).all() and (sums >= 0).all():
            self.sums = sums.copy()
