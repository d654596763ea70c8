"""Counts keys that servers evict for clients' buffers, for the history and for ``status``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.base.time_of_day import time_of_day
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.units import format_size

# A server that evicts less of its size between two looks does so for its own keys.
LEAST_SHARE = 0.05
# A large value lies in its client's buffer first, and more than it takes is let go of for it.
_OWN_OBJECTS = 8
# An event that is older is told no more, and the next one is a new event.
BUFFERS_OVER_SECONDS = 3600.0
# Slow changes are seen over so many looks.
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

    def take_readings(
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
    """Return how many keys were evicted for what is no key, and the bytes that took their place. It
    counts since the last of the looks, or else since the first. What has let go is seen from one
    look to the next alone: keys that go by themselves leave room, too."""
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
    # A cut evicts for nothing else, and a server that is given memory evicts nothing for that.
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
