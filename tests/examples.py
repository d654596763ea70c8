"""Says on how many examples a property is tried."""

from __future__ import annotations

from hypothesis import settings


def examples(most: int) -> int:
    """Half of them in the gate, where they are always the same; all where new ones are searched."""
    return most // 2 if settings.default is not None and settings.default.derandomize else most
