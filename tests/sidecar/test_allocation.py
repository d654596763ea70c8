"""Sizes of allocations against jemalloc's table of classes."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.allocation import allocated_bytes

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
