"""Which objects of a recency stack the server itself holds, and how they have grown since."""

from __future__ import annotations


class HeldObjects:
    """Belongs to the stack in Python; the compiled one keeps the same in its slots.

    Attributes:
        absent: objects of the stack that the server does not hold, as far as is known.
        first_weights: of those that it holds, where their weight is known since it came to.
    """

    def __init__(self) -> None:
        self.absent: set[int] = set()
        self.first_weights: dict[int, int] = {}

    def access(self, key: int, weight: int, *, is_held: bool) -> None:
        """Note whether the server holds the object from now on; ``weight`` is 0 if nobody told."""
        if not is_held or key in self.absent:
            self.first_weights.pop(key, None)
        (self.absent.discard if is_held else self.absent.add)(key)
        if weight and is_held:
            self.first_weights.setdefault(key, weight)

    def remove(self, key: int) -> None:
        """The object leaves the stack."""
        self.absent.discard(key)
        self.first_weights.pop(key, None)

    def add_weight(self, more: int) -> None:
        """Objects turn out to be ``more`` heavier, and were so, but 1 at least."""
        for key, weight in self.first_weights.items():
            self.first_weights[key] = max(1, weight + more)

    def clear(self) -> None:
        """Forget all objects: the stack is empty."""
        self.absent.clear()
        self.first_weights.clear()
