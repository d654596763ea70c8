"""What was seen: sizes above the budget, gaps that have a name, and orders that came too early."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# From and until, of the monotonic clock.
Span = tuple[float, float]
# For a sidecar to see a size that is not its own, and to cut it: far less than a tenth of that, but
# on a machine with eight times as much to do as it has cores 2.5 s were seen.
GAP_SECONDS = 3.0
# A server that did not answer within its second is asked again half a second later, or more.
SILENT_SECONDS = 3.0
_LINE = re.compile(r"(?:step \d+|(done)|(failed)) set (\w+)(?: maxmemory=(\d+))?")


@dataclass(frozen=True)
class Sightings:
    """Tells what was seen of one stage.

    Attributes:
        above: when the sum of ``maxmemory`` was above the budget.
        rounds, seconds, longest_pause_seconds: how often it looked, and what it may have missed.
        used_bytes, rss_bytes: the most of all servers together.
    """

    above: tuple[Span, ...]
    rounds: int
    seconds: float
    longest_pause_seconds: float
    used_bytes: int
    rss_bytes: int

    @property
    def rate_per_second(self) -> float:
        """Return the rounds a second."""
        return self.rounds / self.seconds if self.seconds else 0.0

    @property
    def above_seconds(self) -> float:
        """Return the seconds above the budget, all together."""
        return sum(until - since for since, until in self.above)

    @property
    def longest_above_seconds(self) -> float:
        """Return the longest time above the budget at a stretch."""
        return max((until - since for since, until in self.above), default=0.0)

    def unexcused(self, excuses: Iterable[Span]) -> list[Span]:
        """Return when it was above the budget and nothing excuses it."""
        left = list(self.above)
        for since, until in excuses:
            left = [part for span in left for part in _without(span, since, until)]
        return left


def sightings(file: Path, budget_bytes: int) -> Sightings:
    """Read the sightings of the observer's file until now."""
    changes: list[tuple[float, int, int]] = []
    told = []
    last_at = 0.0
    for text in file.read_text().splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue  # it is being written
        last_at = max(last_at, line["at"])
        if "size" in line:
            changes.append((line["at"], line["server"], line["size"]))
        else:
            told.append(line)
    return Sightings(
        above=tuple(_above(_sums(changes), last_at, budget_bytes)),
        rounds=sum(line["rounds"] for line in told),
        seconds=sum(line["at"] - line["since"] for line in told),
        longest_pause_seconds=max((line["longest"] for line in told), default=0.0),
        used_bytes=max((line["used"] for line in told), default=0),
        rss_bytes=max((line["rss"] for line in told), default=0),
    )


def _sums(changes: list[tuple[float, int, int]]) -> list[tuple[float, int]]:
    """Sum the sizes of all servers; each sum has the time from which it holds."""
    sizes: dict[int, int] = {}
    sums = []
    for at, server, size_bytes in sorted(changes):
        sizes[server] = size_bytes
        sums.append((at, sum(sizes.values())))
    return sums


def _above(sizes: Sequence[tuple[float, int]], last_at: float, budget_bytes: int) -> list[Span]:
    spans: list[Span] = []
    ends = [at for at, _ in sizes[1:]] + [last_at]
    for (since, total), until in zip(sizes, ends, strict=True):
        if total <= budget_bytes or until <= since:
            continue
        if spans and spans[-1][1] == since:
            spans[-1] = (spans[-1][0], until)
        else:
            spans.append((since, until))
    return spans


def _without(span: Span, since: float, until: float) -> list[Span]:
    parts = [(span[0], min(span[1], since)), (max(span[0], until), span[1])]
    return [part for part in parts if part[0] < part[1]]


@dataclass
class _Trouble:
    """What keeps the sidecar from doing anything about a server.

    ``felt_seconds``: for so long after it; ``felt_again``: or for so many times as long as it was,
    of what is tried again after ever longer pauses.
    """

    name: str
    since: float
    felt_seconds: float
    felt_again: float
    until: float = math.inf

    @property
    def felt_until(self) -> float:
        """Return when the sidecar knows at the latest that it is over."""
        if self.until == math.inf:
            return math.inf
        return self.until + max(self.felt_seconds, self.felt_again * (self.until - self.since))


@dataclass
class NamedGaps:
    """Names the gaps of one stage. Somebody has to bring a larger size (``offend``); what keeps the
    sidecar from dealing with that (``trouble``) makes the gap longer, and is none by itself."""

    _offences: list[tuple[str, float]] = field(default_factory=list)
    _troubles: list[_Trouble] = field(default_factory=list)

    def offend(self, name: str) -> None:
        """Somebody but the sidecar gives a server a size, now."""
        self._offences.append((name, time.monotonic()))

    @property
    def has_offences(self) -> bool:
        """Whether anybody but the sidecar has given a server a size."""
        return bool(self._offences)

    def trouble(self, name: str, felt_seconds: float = 0.0, felt_again: float = 0.0) -> None:
        """Begin a trouble, unless it has begun."""
        if not any(t.name == name and t.until == math.inf for t in self._troubles):
            trouble = _Trouble(name, time.monotonic(), felt_seconds, felt_again)
            self._troubles.append(trouble)

    def end(self, name: str) -> None:
        """End a trouble, if there was any."""
        for trouble in self._troubles:
            if trouble.name == name and trouble.until == math.inf:
                trouble.until = time.monotonic()

    def excuses(self) -> list[Span]:
        """An offence, until no trouble was there for ``GAP_SECONDS``."""
        return [(since, self._end_of(since)) for _, since in self._offences]

    def names(self) -> list[str]:
        """Return what there was, in order, each once."""
        found = [*(name for name, _ in self._offences), *(t.name for t in self._troubles)]
        return list(dict.fromkeys(found))

    def _end_of(self, since: float) -> float:
        end = since + GAP_SECONDS
        for trouble in sorted(self._troubles, key=lambda trouble: trouble.since):
            if trouble.since < end and trouble.felt_until > since:
                end = max(end, trouble.felt_until + GAP_SECONDS)
        return end


def growths_too_early(
    lines: Iterable[str], budget_bytes: int, first_bytes: Mapping[str, int]
) -> list[str]:
    """The lines at which sizes that may have been in force together were above the budget.

    A size is in force until a lower one was answered, a higher one from when it is sent. What a
    CONFIG SET did that was not answered well, or not in that life of the sidecar, is not known:
    then the server does not count until its next. ``first_bytes``: in force before the first line.
    """
    sizes = dict(first_bytes)
    sent: dict[str, int] = {}
    early = []
    for line in lines:
        if line == "begins":
            for name in sent:
                sizes.pop(name, None)
            sent.clear()
        match = _LINE.match(line)
        if match is None or (match[4] is None and not match[2]):
            continue
        done, failed, name = match[1], match[2], match[3]
        if failed:
            sent.pop(name, None)
            sizes.pop(name, None)
        elif done:
            sizes[name] = sent.pop(name, int(match[4]))
        else:
            sent[name] = int(match[4])
            if name in sizes:
                sizes[name] = max(sizes[name], sent[name])
                if sent[name] == sizes[name] and sum(sizes.values()) > budget_bytes:
                    early.append(line)
    return early
