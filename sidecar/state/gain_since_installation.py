"""What the sizes that SPREDS keeps have saved, against those that it found when it came."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from solver_lambda.documents.reader import Fields, shown


@dataclass(frozen=True)
class GainSinceInstallation:
    """By the curves, for the reads that came since ``since_seconds`` (Unix time).

    Attributes:
        in_force_seconds: weighted time that these took with the sizes in force.
        installed_seconds: what they would have taken with those that were found.
        before: of each server, in the last window before that, reads a second and the ratio of
            misses; empty if that is not known.
    """

    since_seconds: float
    in_force_seconds: float = 0.0
    installed_seconds: float = 0.0
    before: dict[str, tuple[float, float]] = field(default_factory=dict)

    def plus(self, in_force_seconds: float, installed_seconds: float) -> GainSinceInstallation:
        """With the reads of another step."""
        return replace(
            self,
            in_force_seconds=self.in_force_seconds + in_force_seconds,
            installed_seconds=self.installed_seconds + installed_seconds,
        )

    @property
    def ratio(self) -> float | None:
        """Of the mean access time; ``None`` if nothing was read."""
        if not self.installed_seconds:
            return None
        return 1 - self.in_force_seconds / self.installed_seconds

    @classmethod
    def from_json(cls, fields: Fields) -> GainSinceInstallation:
        """Raises DocumentError."""
        keys = ("since_seconds", "in_force_seconds", "installed_seconds")
        before = fields.table("before", {})
        since, in_force, installed = (fields.number(key, low=0) for key in keys)
        return cls(since, in_force, installed, {one: _pair(before, one) for one in before.names()})


def _pair(fields: Fields, name: str) -> tuple[float, float]:
    """Raises DocumentError."""
    numbers = fields.numbers(name, most=2)
    if len(numbers) != 2 or min(numbers) < 0 or numbers[1] > 1:
        raise fields.refuse(name, f"must be reads a second and a ratio, not {shown(numbers)}")
    return numbers[0], numbers[1]
