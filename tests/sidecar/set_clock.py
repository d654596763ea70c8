"""A clock that goes as it is told."""

from __future__ import annotations


class Clock:
    """Says ``seconds``."""

    def __init__(self, seconds: float = 100.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds
