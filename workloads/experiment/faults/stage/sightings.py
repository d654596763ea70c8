"""What the observer saw: for how long the sizes were above the budget, and what was used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# From and until, of the monotonic clock.
Span = tuple[float, float]


@dataclass(frozen=True)
class Sightings:
    """Of one stage.

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
        """Reached."""
        return self.rounds / self.seconds if self.seconds else 0.0

    @property
    def above_seconds(self) -> float:
        """All together."""
        return sum(until - since for since, until in self.above)

    @property
    def longest_above_seconds(self) -> float:
        """At a stretch."""
        return max((until - since for since, until in self.above), default=0.0)

    def unexcused(self, excuses: Iterable[Span]) -> list[Span]:
        """When it was above the budget and nothing excuses it."""
        left = list(self.above)
        for since, until in excuses:
            left = [part for span in left for part in _without(span, since, until)]
        return left


def sightings(file: Path, budget_bytes: int) -> Sightings:
    """Those of the observer's file until now."""
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
    """Of all servers, from when on."""
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
