"""What the sizes that SPREDS keeps have saved, against those that it found when it came."""

from __future__ import annotations

from dataclasses import dataclass, replace

from solver_lambda.documents.reader import Fields


@dataclass(frozen=True)
class GainSinceInstallation:
    """By the curves, for the reads that came since ``since_seconds`` (Unix time).

    Attributes:
        in_force_seconds: weighted time that these took with the sizes in force.
        installed_seconds: what they would have taken with those that were found.
        measured_before_seconds: the mean access time that servers counted in the last window before
            that; ``None``: not known, or what a miss counts has changed since.
    """

    since_seconds: float
    in_force_seconds: float = 0.0
    installed_seconds: float = 0.0
    measured_before_seconds: float | None = None

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
        before = fields.optional_number("measured_before_seconds", low=0)
        since, in_force, installed = (fields.number(key, low=0) for key in keys)
        return cls(since, in_force, installed, before)
