"""Sizes of allocations against jemalloc's table of classes, and against the C library itself."""

from __future__ import annotations

import ctypes
import platform
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.shards import allocated_bytes

# As jemalloc 5 prints them for a quantum of 16 bytes, less the 8.
CLASSES = [
    *range(16, 129, 16),
    *(160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024),
    *(1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192),
]


@given(st.lists(st.integers(1, 8192), min_size=1, max_size=50))
def test_each_size_takes_the_next_class(sizes: list[int]) -> None:
    told = allocated_bytes(np.array(sizes)).tolist()
    assert told == [CLASSES[bisect_left(CLASSES, size)] for size in sizes]


@pytest.mark.parametrize(("size", "taken"), [(0, 0), (8193, 10240), (2**32 - 1, 2**32)])
def test_the_ends(size: int, taken: int) -> None:
    assert allocated_bytes(np.array([size])).tolist() == [taken]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the classes are those of glibc")
def test_what_the_c_library_gives() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.malloc_usable_size.restype = ctypes.c_size_t
    libc.malloc_usable_size.argtypes = libc.free.argtypes = [ctypes.c_void_p]
    for size in (1, 24, 25, 40, 41, 100, 1000, 1001, 5000, 70_000):
        # Blocks are kept while more are asked for: one that is used again may be 16 bytes
        # larger, where what would remain of it is too small to be a block.
        blocks = [libc.malloc(size) for _ in range(10_000)]
        given = min(libc.malloc_usable_size(block) for block in blocks)
        for block in blocks:
            libc.free(block)
        assert allocated_bytes(np.array([size]), is_libc=True).tolist() == [given]
