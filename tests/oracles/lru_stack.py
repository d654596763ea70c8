"""The recency stack of ``sidecar/curves/lru_stack.py`` in Python, which it is to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from sidecar.curves.lru_stack import COLD, UNSEEN_HIT, IntArray, Integers
from sidecar.samples.wire_format import Operation
from tests.oracles.earlier_from_above import earlier_from_above
from tests.oracles.held_objects import HeldObjects
from tests.oracles.stack_holes import StackHoles

_READ_MISS = int(Operation.READ_MISS)
_WRITE = int(Operation.WRITE)
_EVICTION = int(Operation.EVICTION)
# Slots beyond the live objects before the stack is written anew.
_SPARE_SLOTS = 16384
# Accesses whose distances are computed together.
_CHUNK = 1024


class LruStack:
    """A recency stack of weighted objects; the distance of an object is what lies above it.

    Each access takes the next *slot*; ``_weights[slot]`` is 0 once its object has moved on. A
    Python loop follows the objects from slot to slot, which must be done in order; the distances
    are computed afterwards, for a chunk of accesses at once: what lay above a slot at the chunk's
    begin, and what was put there since, less what has left. The dict of slots is kept in order of
    recency, which makes writing the stack anew one pass.

    An object that was deleted leaves a *hole*: memory that the next insertions fill before they
    push anything down, as in a real cache. An eviction by the server changes nothing: the stack
    stands for caches of every size.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._weights: IntArray = np.zeros(_SPARE_SLOTS, dtype=np.int64)
        self._used = 0
        self._holes = StackHoles()
        self._held = HeldObjects()

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[int]:
        """The live objects, least recently used first."""
        return iter(self._slots)

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    @property
    def total_weight(self) -> int:
        """Return the weight of objects, and of holes above any of them."""
        lowest = next(iter(self._slots.values()), self._used)
        return int(self._weights[lowest : self._used].sum())

    def _live(self) -> IntArray:
        """Slots of the live objects, in order."""
        return np.fromiter(self._slots.values(), np.int64, len(self._slots))

    def held(self) -> tuple[int, int]:
        """Return the number and the weight of the live objects that the server itself holds, as far
        as is known."""
        slots = [self._slots[key] for key in self._slots.keys() - self._held.absent]
        return len(slots), int(self._weights[slots].sum())

    def grown(self) -> tuple[int, int, int]:
        """Return of those of ``held`` whose weight is known since the server came to hold them: how
        many, what they weighed then, and what they weigh now."""
        firsts = self._held.first_weights
        slots = [self._slots[key] for key in firsts]
        return len(slots), sum(firsts.values()), int(self._weights[slots].sum())

    def access(
        self,
        keys: npt.NDArray[np.uint64],
        operations: Integers,
        weights: Integers,
        default_weight: int,
    ) -> tuple[IntArray, IntArray]:
        """Take accesses in order; ``keys``, ``operations`` and ``weights`` have shape (n,).

        ``weights`` are 0 where unknown: the object keeps its weight, or gets ``default_weight``
        when it is new. Flushes and swaps are not for here.

        Returns:
            For each read: the weight above the object (or ``COLD``, ``UNSEEN_HIT``) and the
            object's own; shapes (reads,).
        """
        parts = [
            self._access(
                keys[start : start + _CHUNK].tolist(),
                operations[start : start + _CHUNK],
                weights[start : start + _CHUNK],
                default_weight,
            )
            for start in range(0, len(keys), _CHUNK)
        ]
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        above, own = zip(*parts, strict=True)
        return np.concatenate(above), np.concatenate(own)

    def _access(
        self,
        keys: Sequence[int],
        operations: Integers,
        weights: Integers,
        default_weight: int,
    ) -> tuple[IntArray, IntArray]:
        begin = self._take_slots(weights)
        scalars = self._weights.data
        slots, holes, hold = self._slots, self._holes, self._held.access
        befores: list[int] = []
        note = befores.append
        refilled: list[int] = []
        fills: list[tuple[int, int, int]] = []
        top_hole = holes.topmost
        for slot, key, operation, weight in zip(
            range(begin, self._used), keys, operations.tolist(), weights.tolist(), strict=True
        ):
            if operation > _WRITE:
                note(COLD)
                if key in slots:
                    self._leave(key, operation)
                    top_hole = holes.topmost
                continue
            before, told = slots.pop(key, COLD), weight
            if before >= 0:
                note(before)
                if not weight:
                    scalars[slot] = scalars[before]
                if top_hole > before:
                    # Caches too small for the object fill a hole above it with it; the larger
                    # ones have the hole where it was.
                    refilled.append(slot)
                    top_hole = holes.fill(slot, self._make_hole(before), fills)
            elif operation == _READ_MISS:
                # Without a write it will not be in a cache of any size.
                note(COLD)
                continue
            else:
                note(UNSEEN_HIT)
                if not weight:
                    weight = scalars[slot] = default_weight
                if top_hole >= 0:
                    top_hole = holes.fill(slot, weight, fills)
            slots[key] = slot
            hold(key, told, is_held=operation != _READ_MISS)
        return self._distances(
            begin, np.array(befores, dtype=np.int64), operations, refilled, fills
        )

    def _take_slots(self, weights: Integers) -> int:
        """Put ``weights`` into the next slots, shape (n,); returns the first of these."""
        if self._used + len(weights) > len(self._weights):
            self._write_anew()
        begin = self._used
        self._used += len(weights)
        self._weights[begin : self._used] = weights
        return begin

    def _leave(self, key: int, operation: int) -> None:
        if operation == _EVICTION:
            self._held.access(key, 0, is_held=False)
        else:
            self.delete([key])

    def _make_hole(self, slot: int) -> int:
        """Make a hole and return its weight."""
        weight = int(self._weights[slot])
        self._holes.add(slot, weight)
        return weight

    def _distances(
        self,
        begin: int,
        befores: IntArray,
        operations: Integers,
        refilled: list[int],
        fills: list[tuple[int, int, int]],
    ) -> tuple[IntArray, IntArray]:
        """Bring the weights up to date after the accesses of the slots from ``begin`` on.

        ``befores`` has the slots that their objects had before (or ``COLD``, ``UNSEEN_HIT``), shape
        (n,); ``refilled`` are those of the accesses that left holes there, and ``fills`` is what
        was taken out of holes, of which access. Returns as ``access``.
        """
        weights, end = self._weights, self._used
        weights[begin:end][befores == COLD] = 0
        below = np.concatenate(([0], np.cumsum(weights[:end])))
        own = weights[begin:end].copy()
        found = np.flatnonzero(befores >= 0)
        places = befores[found]
        own[found] = weights[places]
        leaving = weights[places]
        at = found + begin
        above = befores
        if fills:
            leaving[np.searchsorted(at, refilled)] = 0
            fills_at, holes, amounts = np.array(fills).T
            order = np.argsort(np.concatenate((at, fills_at)), kind="stable")
            left_above = np.empty(len(order))
            left_above[order] = earlier_from_above(
                np.concatenate((places, holes))[order], np.concatenate((leaving, amounts))[order]
            )
            left_above = left_above[: len(found)]
            np.subtract.at(weights, holes, amounts)
        else:
            left_above = earlier_from_above(places, leaving)
        weights[places] -= leaving
        above[found] = below[at] - below[places + 1] - left_above.astype(np.int64)
        reads = operations <= _READ_MISS
        return above[reads], own[reads]

    def _write_anew(self) -> None:
        """Close the gaps between slots, and make room for more. Holes below every object, and the
        lowest of very many holes, are forgotten: that bounds the memory."""
        live = self._live()
        lowest = live[0] if len(live) else self._used
        self._holes.forget_below(lowest, len(live))
        kept = live
        if self._holes.slots:
            kept = np.sort(np.concatenate((live, np.array(self._holes.slots))))
            self._holes.renumber(np.searchsorted(kept, self._holes.slots).tolist())
        weights = np.zeros(2 * len(kept) + _SPARE_SLOTS, dtype=np.int64)
        weights[: len(kept)] = self._weights[kept]
        self._slots = dict(zip(self._slots, np.searchsorted(kept, live).tolist(), strict=True))
        self._weights, self._used = weights, len(kept)

    def forget(self, keys: Iterable[int]) -> None:
        """Take objects out as if they had never been there: no holes."""
        for key in keys:
            del self._slots[key]
            self._held.remove(key)
        self._write_anew()

    def delete(self, keys: Iterable[int]) -> None:
        """Delete objects; they leave holes."""
        for key in keys:
            self._make_hole(self._slots.pop(key))
            self._held.remove(key)

    def add_weight(self, more: int) -> None:
        """Make each object ``more`` heavier (lighter, if negative), but 1 at least."""
        live = self._live()
        self._weights[live] = np.maximum(1, self._weights[live] + more)
        self._held.add_weight(more)

    def clear(self) -> None:
        """Forget everything."""
        self._slots, self._holes, self._used = {}, StackHoles(), 0
        self._held.clear()

    def below(self, depth: int) -> list[int]:
        """The objects with more than ``depth`` weight above them, least recently used first."""
        weights = self._weights[: self._used]
        upto = np.cumsum(weights)[self._live()]
        deep = int(np.count_nonzero(upto < weights.sum() - depth))
        return list(islice(self._slots, deep))
