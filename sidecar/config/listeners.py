"""Tells what a server's configuration knows of who listens at its address."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class KnownListeners(Protocol):
    """Knows which users listen at an address; ``None``: nobody has been seen there."""

    @property
    def users(self) -> Collection[int] | None: ...

    def learn(self, users: Collection[int]) -> None:
        """Note that these were found there first."""


class FoundListeners:
    """Has those that somebody knows, or that are found first, for this process."""

    def __init__(self, users: Collection[int] | None = None) -> None:
        self.users = users

    def learn(self, users: Collection[int]) -> None:
        """Remember these for its other connections."""
        self.users = users
