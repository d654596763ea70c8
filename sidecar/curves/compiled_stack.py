"""The recency stack of ``lru_stack`` by the compiled library, several times as fast."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from ctypes import CDLL
from functools import cache

import numpy as np
import numpy.typing as npt

from sidecar.curves.lru_stack import IntArray, Integers, LruStack
from sidecar.kernel.library import library

UIntArray = npt.NDArray[np.uint64]

_log = logging.getLogger(__name__)


class CompiledStack:
    """What ``LruStack`` is, to the last bit; see ``kernel/server_stack.c``.

    All of its methods raise MemoryError if there is not enough.

    Attributes:
        handle: the library's stack.
    """

    def __init__(self, found: CDLL) -> None:
        self._library = found
        self.handle = found.spreds_stack_new()
        if not self.handle:
            raise MemoryError("not enough memory for a stack")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_stack_free(self.handle)

    def __len__(self) -> int:
        return int(self._library.spreds_stack_live(self.handle))

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys().tolist())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and bool(self._library.spreds_stack_has(self.handle, key))

    @property
    def total_weight(self) -> int:
        return int(self._library.spreds_stack_total_weight(self.handle))

    def _keys(self) -> UIntArray:
        keys = np.empty(len(self), np.uint64)
        self._library.spreds_stack_list(self.handle, keys.ctypes.data, None)
        return keys

    def held(self) -> tuple[int, int]:
        count = np.zeros(1, np.uint64)
        weight = self._library.spreds_stack_held(self.handle, count.ctypes.data)
        return int(count[0]), int(weight)

    def grown(self) -> tuple[int, int, int]:
        told = np.zeros(2, np.int64)
        first, count = told[:1], told[1:]
        weight = self._library.spreds_stack_grown(self.handle, first.ctypes.data, count.ctypes.data)
        return int(count[0]), int(first[0]), int(weight)

    def access(
        self, keys: UIntArray, operations: Integers, weights: Integers, default_weight: int
    ) -> tuple[IntArray, IntArray]:
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
        self._remove(keys, forgotten=True)

    def delete(self, keys: Iterable[int]) -> None:
        self._remove(keys, forgotten=False)

    def _remove(self, keys: Iterable[int], *, forgotten: bool) -> None:
        gone = np.fromiter(keys, np.uint64)
        _enough(
            self._library.spreds_stack_remove(self.handle, gone.ctypes.data, len(gone), forgotten)
        )

    def add_weight(self, more: int) -> None:
        self._library.spreds_stack_add_weight(self.handle, more)

    def clear(self) -> None:
        self._library.spreds_stack_clear(self.handle)

    def below(self, depth: int) -> list[int]:
        deep = int(self._library.spreds_stack_below(self.handle, depth))
        keys: list[int] = self._keys()[:deep].tolist()
        return keys


def _enough(result: int) -> None:
    if result < 0:
        raise MemoryError("not enough memory for a stack")


def new_stack() -> CompiledStack | LruStack:
    """An empty stack: the compiled one where there is the library."""
    found = installed_library()
    return LruStack() if found is None else CompiledStack(found)


def installed_library() -> CDLL | None:
    """The compiled library; that there is none is logged once."""
    found = library()
    if found is None:
        _say_that_it_is_slow()
    return found


@cache
def _say_that_it_is_slow() -> None:
    _log.warning(
        "the compiled library is not installed: samples take several times as long; installing the "
        "package where there is a C compiler builds it, in a clone 'make setup'"
    )
