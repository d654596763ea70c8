"""Holes of the recency stack in Python: memory of deleted objects, which the next ones fill."""

from __future__ import annotations

from bisect import insort

NO_HOLE = -1
# Beyond the live objects; the lowest of more are forgotten, which bounds the memory.
_SPARE_HOLES = 1024


class StackHoles:
    """Slots in which an object was deleted.

    Attributes:
        slots: ascending.
        left: what is not filled yet of each of them.
    """

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.left: dict[int, int] = {}

    @property
    def topmost(self) -> int:
        """The slot of the topmost hole, or ``NO_HOLE``."""
        return self.slots[-1] if self.slots else NO_HOLE

    def add(self, slot: int, weight: int) -> None:
        insort(self.slots, slot)
        self.left[slot] = weight

    def fill(self, at: int, weight: int, fills: list[tuple[int, int, int]]) -> int:
        """Take ``weight`` out of the holes, the topmost first, and note (at, hole, amount).

        Returns:
            As ``topmost``, of those that are left.
        """
        while self.slots:
            hole = self.slots[-1]
            room = self.left[hole]
            if room > weight:
                fills.append((at, hole, weight))
                self.left[hole] = room - weight
                return hole
            fills.append((at, hole, room))
            weight -= room
            del self.left[hole]
            self.slots.pop()
            if not weight:
                break
        return self.topmost

    def forget_below(self, lowest: int, live: int) -> None:
        """Forget those below the slot ``lowest``, which are below every one of ``live`` objects,
        and the lowest of very many."""
        kept = [slot for slot in self.slots if slot > lowest][-(live + _SPARE_HOLES) :]
        self.slots, self.left = kept, {slot: self.left[slot] for slot in kept}

    def renumber(self, slots: list[int]) -> None:
        """Each hole, in order, now has another slot."""
        left = [self.left[slot] for slot in self.slots]
        self.slots, self.left = slots, dict(zip(slots, left, strict=True))
