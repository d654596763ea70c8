"""Counts what the sizes that SPREDS keeps have saved, against those that it found when it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from solver_lambda.documents.reader import Fields, shown

# By server: reads, their misses with the sizes in force, and with others.
Counted = dict[str, tuple[float, float, float]]


def added(counted: Counted, step: Counted) -> Counted:
    """Return the sums of both."""
    sums = dict(counted)
    for name, (reads, misses, other_misses) in step.items():
        had = sums.get(name, (0.0, 0.0, 0.0))
        sums[name] = (had[0] + reads, had[1] + misses, had[2] + other_misses)
    return sums


@dataclass(frozen=True)
class GainSinceInstallation:
    """Counts by the curves, for the reads that came since ``since_seconds`` (Unix time).

    Attributes:
        counted: of each server its reads, their misses with the sizes in force, and what would
            have been misses with those that were found. What a miss costs may change, and these
            are weighed when somebody asks.
        before: of each server, in the last window before that, reads a second and the ratio of
            misses; empty if that is not known.
        pinned_bytes: of each server what its keys held then that are never evicted.
    """

    since_seconds: float
    counted: Counted = field(default_factory=dict)
    before: dict[str, tuple[float, float]] = field(default_factory=dict)
    pinned_bytes: dict[str, float] = field(default_factory=dict)

    def plus(self, step: Counted) -> GainSinceInstallation:
        """Return it with the reads of another step."""
        return replace(self, counted=added(self.counted, step))

    def found_bytes(
        self,
        installed_bytes: Mapping[str, int],
        in_force_bytes: Mapping[str, int],
        pinned_bytes: Mapping[str, float],
    ) -> dict[str, int]:
        """Return the sizes that were found, each with what is pinned of it since, as far as it has
        room for that now. Others would have made that room, and it is no gain."""
        found = {}
        for name, size in installed_bytes.items():
            pinned = pinned_bytes.get(name, 0.0)
            more = max(0.0, pinned - self.pinned_bytes.get(name, pinned))
            found[name] = max(size, min(in_force_bytes.get(name, size), round(size + more)))
        return found

    @classmethod
    def from_json(cls, fields: Fields) -> GainSinceInstallation | None:
        """Read it; ``None`` of a file that has sums of time: nobody knows of which reads they are.

        Raises:
            DocumentError: with the key and value at fault.
        """
        if not fields.has("counted"):
            return None
        counted, before = fields.table("counted"), fields.table("before", {})
        pinned = fields.table("pinned_bytes", {})
        return cls(
            fields.number("since_seconds", low=0),
            {one: _counts(counted, one) for one in counted.names()},
            {one: _pair(before, one) for one in before.names()},
            {one: pinned.number(one, low=0) for one in pinned.names()},
        )


def _counts(fields: Fields, name: str) -> tuple[float, float, float]:
    """Read reads, and their misses twice. Raises DocumentError."""
    numbers = fields.numbers(name, most=3)
    if len(numbers) != 3 or min(numbers) < 0:
        raise fields.refuse(name, f"must be reads and misses twice, not {shown(numbers)}")
    return numbers[0], numbers[1], numbers[2]


def _pair(fields: Fields, name: str) -> tuple[float, float]:
    """Read reads a second and a ratio. Raises DocumentError."""
    numbers = fields.numbers(name, most=2)
    if len(numbers) != 2 or min(numbers) < 0 or numbers[1] > 1:
        raise fields.refuse(name, f"must be reads a second and a ratio, not {shown(numbers)}")
    return numbers[0], numbers[1]
