"""Computes LRU stack distances in bytes (Mattson et al., IBM Systems Journal 9(2), 1970)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library

IntArray = npt.NDArray[np.int64]
UIntArray = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.integer[Any]]

# Instead of a distance: the object was not in the stack, and the server missed it too.
COLD = -1
# Instead of a distance: the server has the object since before the stack knew it.
UNSEEN_HIT = -2


class LruStack:
    """Stacks weighted objects by recency; the distance of an object is what lies above it. See
    ``kernel/server_stack.c``.

    An object that was deleted leaves a *hole*: memory that the next insertions fill before they
    push anything down, as in a real cache. An eviction by the server changes nothing: the stack
    stands for caches of every size.

    All of its methods raise MemoryError if there is not enough.

    Attributes:
        handle: the library's stack.
    """

    def __init__(self) -> None:
        self._library = library()
        self.handle = self._library.spreds_stack_new()
        if not self.handle:
            raise MemoryError("not enough memory for a stack")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_stack_free(self.handle)

    def __len__(self) -> int:
        return int(self._library.spreds_stack_live(self.handle))

    def __iter__(self) -> Iterator[int]:
        """Yield the live objects, least recently used first."""
        return iter(self._keys().tolist())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and bool(self._library.spreds_stack_has(self.handle, key))

    @property
    def total_weight(self) -> int:
        """Return the weight of objects, and of holes above any of them."""
        return int(self._library.spreds_stack_total_weight(self.handle))

    def _keys(self) -> UIntArray:
        keys = np.empty(len(self), np.uint64)
        self._library.spreds_stack_list(self.handle, keys.ctypes.data, None)
        return keys

    def listed(self) -> tuple[UIntArray, IntArray]:
        """Return the live objects, least recently used first, and their weights; shapes (n,)."""
        keys, weights = np.empty(len(self), np.uint64), np.empty(len(self), np.int64)
        self._library.spreds_stack_list(self.handle, keys.ctypes.data, weights.ctypes.data)
        return keys, weights

    def held(self) -> tuple[int, int]:
        """Count the live objects that the server itself holds, as far as is known. Returns how
        many, and their weight."""
        count = np.zeros(1, np.uint64)
        weight = self._library.spreds_stack_held(self.handle, count.ctypes.data)
        return int(count[0]), int(weight)

    def grown(self) -> tuple[int, int, int]:
        """Count those of ``held`` whose weight is known since the server came to hold them. Returns
        how many, what they weighed then, and what they weigh now."""
        told = np.zeros(2, np.int64)
        first, count = told[:1], told[1:]
        weight = self._library.spreds_stack_grown(self.handle, first.ctypes.data, count.ctypes.data)
        return int(count[0]), int(first[0]), int(weight)

    def access(
        self, keys: UIntArray, operations: Integers, weights: Integers, default_weight: int
    ) -> tuple[IntArray, IntArray]:
        """Take accesses in order; ``keys``, ``operations`` and ``weights`` have shape (n,).

        ``weights`` are 0 where unknown: the object keeps its weight, or gets ``default_weight``
        when it is new. Flushes and swaps are not for here.

        Returns:
            For each read: the weight above the object (or ``COLD``, ``UNSEEN_HIT``) and the
            object's own; shapes (reads,).
        """
        keys = np.ascontiguousarray(keys, np.uint64)
        operations = np.ascontiguousarray(operations, np.uint8)
        weights = np.ascontiguousarray(weights, np.int64)
        told = np.empty((2, len(keys)), np.int64)
        above, own = told
        reads = self._library.spreds_stack_access(
            self.handle,
            *(keys.ctypes.data, operations.ctypes.data, weights.ctypes.data, len(keys)),
            *(default_weight, above.ctypes.data, own.ctypes.data),
        )
        _enough(reads)
        return above[:reads], own[:reads]

    def forget(self, keys: Iterable[int]) -> None:
        """Take objects out as if they had never been there: no holes."""
        self._remove(keys, forgotten=True)

    def delete(self, keys: Iterable[int]) -> None:
        """Delete objects; they leave holes."""
        self._remove(keys, forgotten=False)

    def _remove(self, keys: Iterable[int], *, forgotten: bool) -> None:
        gone = np.fromiter(keys, np.uint64)
        _enough(
            self._library.spreds_stack_remove(self.handle, gone.ctypes.data, len(gone), forgotten)
        )

    def add_weight(self, more: int) -> None:
        """Make each object ``more`` heavier (lighter, if negative), but 1 at least."""
        self._library.spreds_stack_add_weight(self.handle, more)

    def clear(self) -> None:
        """Forget everything."""
        self._library.spreds_stack_clear(self.handle)

    def below(self, depth: int) -> list[int]:
        """Return the objects with more than ``depth`` weight above them, least recently used
        first."""
        deep = int(self._library.spreds_stack_below(self.handle, depth))
        keys: list[int] = self._keys()[:deep].tolist()
        return keys


def _enough(result: int) -> None:
    if result < 0:
        raise MemoryError("not enough memory for a stack")
