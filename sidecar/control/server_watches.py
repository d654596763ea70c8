"""Tells what is seen of servers from second to second, for the history and for ``status``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.base.time_of_day import time_of_day
from sidecar.control.server_events import ServerEvents
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.units import format_size

# A server that evicts less of its size between two looks does so for its own keys.
LEAST_SHARE = 0.05
# A large value lies in its client's buffer first, and more than it takes is let go of for it.
_OWN_OBJECTS = 8
# What happened longer ago is told no more, and the next one is another event.
BUFFERS_OVER_SECONDS = 3600.0
# What comes slowly is seen over so many.
_LOOKS = 16


@dataclass
class _Bursts:
    since_seconds: float
    last_seconds: float
    times: int = 0
    keys: int = 0
    most_bytes: float = 0.0


class BufferWatch:
    """Counts keys that servers evict for what passes, as clients' buffers, by their own counters.
    In a burst, between two looks or some more, keys were evicted. Memory beside keys has grown by
    as much, or the server is no longer full: what took the memory has let go. Times are Unix time.

    Attributes:
        just_now: the servers that had one before the last look.
    """

    def __init__(self) -> None:
        self._looks: dict[str, deque[ServerReading]] = {}
        self._bursts: dict[str, _Bursts] = {}
        self.just_now: set[str] = set()

    def look(
        self, now_seconds: float, readings: Mapping[str, ServerReading]
    ) -> Iterator[tuple[str, str]]:
        """Count; yield each server whose first burst in an hour this is, with words for people."""
        self.just_now = set()
        for name, reading in readings.items():
            looks = self._looks.setdefault(name, deque(maxlen=_LOOKS))
            found = _burst([*looks], reading)
            if found is not None:
                looks.clear()
            looks.append(reading)
            if found is None:
                continue
            evicted, taken_bytes = found
            known = self._bursts.get(name)
            is_new = known is None or now_seconds - known.last_seconds > BUFFERS_OVER_SECONDS
            if known is None or is_new:
                known = self._bursts[name] = _Bursts(now_seconds, now_seconds)
            self.just_now.add(name)
            known.last_seconds = now_seconds
            known.times += 1
            known.keys += evicted
            known.most_bytes = max(known.most_bytes, taken_bytes)
            if is_new:
                yield name, f"{name}: {_words(known)}"

    def problems(self, now_seconds: float) -> Iterator[str]:
        """Yield words on those that had some within ``BUFFERS_OVER_SECONDS``."""
        for name, one in self._bursts.items():
            if now_seconds - one.last_seconds <= BUFFERS_OVER_SECONDS:
                yield (
                    f"{name}: {_words(one)}. If it is buffers, bound them (maxmemory-clients, "
                    "client-output-buffer-limit)"
                )


def _burst(looks: Sequence[ServerReading], reading: ServerReading) -> tuple[int, float] | None:
    """Return keys that were evicted for what is no key, and bytes that took their place, since the
    last of the looks, or since the first. What has let go is seen from one look to the next alone:
    keys that go by themselves leave room, too."""
    return _taken(looks[-1:], reading, lets_go=True) or _taken(looks, reading, lets_go=False)


def _taken(
    since: Sequence[ServerReading], reading: ServerReading, *, lets_go: bool
) -> tuple[int, float] | None:
    """Return the keys evicted for something that is no key, and its bytes; ``None``: hardly any."""
    if not since:
        return None
    before, least_bytes = since[0], min(one.maxmemory_bytes for one in (*since, reading))
    if reading.run_id != before.run_id or not least_bytes:
        return None
    key_bytes = max(0, before.counted_bytes - before.baseline_bytes) / max(1, before.keys)
    evicted = reading.evicted_keys - before.evicted_keys
    # What a cut evicts is for nothing else, and who is given memory evicts nothing for that.
    cut_bytes = max(0, before.counted_bytes - least_bytes)
    for_it_bytes = evicted * key_bytes - cut_bytes
    if for_it_bytes < max(LEAST_SHARE * least_bytes, cut_bytes):
        return None
    grown_bytes = reading.baseline_bytes - before.baseline_bytes
    free_bytes = least_bytes - reading.counted_bytes if lets_go else 0
    taken_bytes = float(min(max(grown_bytes, free_bytes), reading.maxmemory_bytes))
    if taken_bytes < max(for_it_bytes / 2, _OWN_OBJECTS * key_bytes):
        return None
    return round(for_it_bytes / key_bytes), taken_bytes


def _words(bursts: _Bursts) -> str:
    times = "" if bursts.times == 1 else f", {bursts.times} times"
    return (
        f"something took some {format_size(round(bursts.most_bytes))}{times} since "
        f"{time_of_day(bursts.since_seconds)}, as buffers of clients do, or a value that is gone, "
        f"and {bursts.keys:,} keys were evicted for it"
    )


# What was refused longer ago is no problem now, and another refusal is another event.
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

    def look(
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


class ServerWatches:
    """Watches one sidecar's servers. ``run_ids``: of the processes that the last one saw.

    Attributes:
        refusals, buffers: its parts.
    """

    def __init__(self, run_ids: Mapping[str, str]) -> None:
        self._events = ServerEvents(run_ids)
        self.refusals, self.buffers = RefusalWatch(), BufferWatch()

    def look(
        self, now_seconds: float, readings: Mapping[str, ServerReading], errors: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield a server and what happened to it, for people. ``errors``: why servers do not
        answer."""
        yield from self._events.look(now_seconds, readings, errors)
        yield from self.buffers.look(now_seconds, readings)
        yield from self.refusals.look(now_seconds, readings)
