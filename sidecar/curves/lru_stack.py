"""LRU stack distances in bytes (Mattson et al., IBM Systems Journal 9(2), 1970)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from sidecar.samples import Operation

COLD = -1
"""Instead of a distance: the object was not in the stack, and the server missed it too."""
UNSEEN_HIT = -2
"""Instead of a distance: the server has the object since before the stack knew it."""

_READ_HIT = int(Operation.READ_HIT)
_READ_MISS = int(Operation.READ_MISS)
_WRITE = int(Operation.WRITE)
_DELETE = int(Operation.DELETE)
_EXPIRY = int(Operation.EXPIRY)
_BLOCK_BITS = 6
_BLOCK = 1 << _BLOCK_BITS
# Slots beyond the live objects before the stack is written anew.
_SPARE_SLOTS = 8192


class LruStack:
    """A recency stack of weighted objects; the distance of an object is what lies above it.

    Each access takes the next *slot*; ``_weights[slot]`` is 0 once its object has moved on.
    The sum over a block of slots stands in ``_blocks``, so a distance is two short sums. The
    dict of slots is kept in order of recency, which makes writing the stack anew one pass.

    An object that was deleted leaves a *hole*: memory that the next insertions fill before they
    push anything down, as in a real cache. An eviction by the server changes nothing: the stack
    stands for caches of every size.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._weights: list[int] = []
        self._blocks: list[int] = []
        self._holes: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[int]:
        """The live objects, least recently used first."""
        return iter(self._slots)

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    @property
    def total_weight(self) -> int:
        """Of objects and holes."""
        return sum(self._blocks)

    def weights_by_recency(self) -> list[int]:
        """Weights of the live objects, most recently used first."""
        weights = self._weights
        return [weights[slot] for slot in reversed(self._slots.values())]

    def access(
        self,
        keys: list[int],
        operations: list[int],
        weights: list[int],
        default_weight: int,
    ) -> tuple[list[int], list[int]]:
        """Take accesses in order; all three lists have one length.

        ``weights`` are 0 where unknown: the object keeps its weight, or gets ``default_weight``
        when it is new. Flushes and swaps are not for here.

        Returns:
            For each read: the weight above the object (or ``COLD``, ``UNSEEN_HIT``) and the
            object's own, in two lists.
        """
        slots, slot_weights, blocks, holes = (
            self._slots,
            self._weights,
            self._blocks,
            self._holes,
        )
        above: list[int] = []
        own: list[int] = []
        pop, note_above, note_own, push = (
            slots.pop,
            above.append,
            own.append,
            slot_weights.append,
        )
        for key, operation, weight in zip(keys, operations, weights, strict=True):
            if operation > _WRITE:
                if operation != _DELETE and operation != _EXPIRY:
                    continue
                slot = pop(key, None)
                if slot is not None:
                    insort(holes, slot)
                continue
            slot = pop(key, None)
            if slot is None:
                if operation == _READ_MISS:
                    # Without a write it will not be in a cache of any size.
                    note_above(COLD)
                    note_own(0)
                    continue
                weight = weight or default_weight
                if operation == _READ_HIT:
                    note_above(UNSEEN_HIT)
                    note_own(weight)
                if holes:
                    self._fill_holes(weight)
            else:
                block = slot >> _BLOCK_BITS
                weight_before = slot_weights[slot]
                if operation != _WRITE:
                    if block + 1 == len(blocks):
                        note_above(sum(slot_weights[slot + 1 :]))
                    else:
                        note_above(
                            sum(slot_weights[slot + 1 : (block + 1) << _BLOCK_BITS])
                            + sum(blocks[block + 1 :])
                        )
                    note_own(weight_before)
                weight = weight or weight_before
                if holes:
                    # Caches too small for the object fill a hole above it with it; the larger
                    # ones have the hole where it was.
                    insort(holes, slot)
                    self._fill_holes(weight_before)
                else:
                    slot_weights[slot] = 0
                    blocks[block] -= weight_before
            slot = slots[key] = len(slot_weights)
            push(weight)
            if slot & (_BLOCK - 1):
                blocks[-1] += weight
            else:
                blocks.append(weight)
        if len(slot_weights) > 2 * len(slots) + _SPARE_SLOTS:
            self._write_anew()
        return above, own

    def _fill_holes(self, weight: int) -> None:
        """Take ``weight`` out of the holes, the topmost first."""
        holes, slot_weights = self._holes, self._weights
        while weight and holes:
            slot = holes[-1]
            filled = min(weight, slot_weights[slot])
            slot_weights[slot] -= filled
            self._blocks[slot >> _BLOCK_BITS] -= filled
            weight -= filled
            if not slot_weights[slot]:
                holes.pop()

    def _write_anew(self) -> None:
        """Close the gaps between slots. Holes below every object, and the lowest of very many
        holes, are forgotten: that bounds the memory."""
        slots, weights = self._slots, self._weights
        lowest = next(iter(slots.values()), len(weights))
        holes = [slot for slot in self._holes if slot > lowest][-(len(slots) + 1024) :]
        if holes:
            kept = sorted([*slots.values(), *holes])
            place = {slot: new for new, slot in enumerate(kept)}
            self._holes[:] = [place[slot] for slot in holes]
            new_slots = {key: place[slot] for key, slot in slots.items()}
            weights[:] = [weights[slot] for slot in kept]
        else:
            self._holes.clear()
            new_slots = dict(zip(slots, range(len(slots)), strict=True))
            weights[:] = [weights[slot] for slot in slots.values()]
        slots.clear()
        slots.update(new_slots)
        self._blocks[:] = [
            sum(weights[start : start + _BLOCK]) for start in range(0, len(weights), _BLOCK)
        ]

    def forget(self, keys: list[int]) -> None:
        """Take objects out as if they had never been there: no holes."""
        for key in keys:
            slot = self._slots.pop(key)
            self._blocks[slot >> _BLOCK_BITS] -= self._weights[slot]
            self._weights[slot] = 0
        self._write_anew()

    def delete(self, keys: list[int]) -> None:
        """Delete objects; they leave holes."""
        self._holes.extend(self._slots.pop(key) for key in keys)
        self._holes.sort()

    def rename(self, names: dict[int, int]) -> None:
        """Give objects other keys, all at once; recency stays."""
        renamed = {names.get(key, key): slot for key, slot in self._slots.items()}
        self._slots.clear()
        self._slots.update(renamed)

    def add_weight(self, more: int) -> None:
        """Make each object ``more`` heavier (lighter, if negative), but 1 at least."""
        for slot in self._slots.values():
            self._weights[slot] = max(1, self._weights[slot] + more)
        self._write_anew()

    def clear(self) -> None:
        """Forget everything."""
        for container in (self._slots, self._weights, self._blocks, self._holes):
            container.clear()

    def below(self, depth: int) -> list[int]:
        """The objects with more than ``depth`` weight above them."""
        found: list[int] = []
        room = self.total_weight - depth
        weights = self._weights
        if room <= 0:
            return found
        weight_from_bottom = 0
        previous = 0
        for key, slot in self._slots.items():
            weight_from_bottom += sum(weights[previous : slot + 1])
            if weight_from_bottom >= room:
                break
            found.append(key)
            previous = slot + 1
        return found
