"""Counts writes that servers refuse for want of memory, for the history and for ``status``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sidecar.base.time_of_day import time_of_day
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.units import format_size

# An older refusal is no problem now, and a later one is a new event.
REFUSED_OVER_SECONDS = 60.0
# A burst that is over before others could have made room is a problem, and no reason to act.
LASTS_SECONDS = 5.0


@dataclass
class _Refused:
    since_seconds: float
    last_seconds: float
    writes: int
    last: ServerReading
    is_told: bool = False


class RefusalWatch:
    """Counts writes that servers refuse. One counts where the server had more than its limit and
    nothing left to evict, before it or after. It counts as well where more keys than are left were
    evicted, and it holds less than half of its limit. A large value counts only while it is
    written. Anybody can have others, as for a missing password; they are no matter of memory. Times
    are Unix time."""

    def __init__(self) -> None:
        self._before: dict[str, ServerReading] = {}
        self._refused: dict[str, _Refused] = {}

    def take_readings(
        self, now_seconds: float, readings: Mapping[str, ServerReading]
    ) -> Iterator[tuple[str, str]]:
        """Count; yield once each server whose refusals last, with words for people."""
        for name, reading in readings.items():
            before = self._before.get(name)
            self._before[name] = reading
            if before is None or before.run_id != reading.run_id:
                self._refused.pop(name, None)
                continue
            writes = reading.refused_writes - before.refused_writes
            had = next(filter(_has_no_room, (reading, before)), None)
            if had is None and _was_emptied(before, reading):
                had = reading
            if writes <= 0 or had is None:
                continue
            known = self._refused.get(name)
            if known is None or now_seconds - known.last_seconds > REFUSED_OVER_SECONDS:
                self._refused[name] = _Refused(now_seconds, now_seconds, writes, had)
                continue
            known.last_seconds, known.writes, known.last = now_seconds, known.writes + writes, had
            if not known.is_told and now_seconds - known.since_seconds >= LASTS_SECONDS:
                known.is_told = True
                yield name, f"{name} refuses writes: {_why(had)}"

    def lasting(self, now_seconds: float) -> list[str]:
        """Return servers that refuse writes now, and have for a while."""
        return [
            name
            for name, one in self._refused.items()
            if one.last_seconds - one.since_seconds >= LASTS_SECONDS
            and now_seconds - one.last_seconds < LASTS_SECONDS
        ]

    def problems(self, now_seconds: float) -> Iterator[str]:
        """Yield words on those that refused some within ``REFUSED_OVER_SECONDS``."""
        for name, one in self._refused.items():
            if now_seconds - one.last_seconds <= REFUSED_OVER_SECONDS:
                writes = "a write" if one.writes == 1 else f"{one.writes:,} writes"
                yield (
                    f"{name} refused {writes} since {time_of_day(one.since_seconds)}, for want of "
                    f"memory: {_why(one.last)}"
                )


def _was_emptied(before: ServerReading, now: ServerReading) -> bool:
    """Whether it was emptied: what turns over by its own load evicts as much, and is full."""
    went = now.evicted_keys - before.evicted_keys
    return went > now.keys and now.counted_bytes < now.maxmemory_bytes / 2


def _has_no_room(reading: ServerReading) -> bool:
    evictable = {"noeviction": 0, "allkeys": reading.keys, "volatile": reading.keys_with_ttl}
    left = evictable.get(reading.maxmemory_policy.partition("-")[0], 0)
    return reading.counted_bytes > reading.maxmemory_bytes > 0 and not left


def _why(reading: ServerReading) -> str:
    if not _has_no_room(reading):
        return (
            f"a value takes more than {format_size(reading.maxmemory_bytes)} have room for, though "
            "nearly all else was evicted"
        )
    stays = format_size(min(reading.unevictable_bytes, reading.counted_bytes))
    return (
        f"it used {format_size(reading.counted_bytes)} of {format_size(reading.maxmemory_bytes)}, "
        f"and {stays} of that were nothing that it could evict (clients' buffers, scripts, tables)"
    )
