"""Works out the memory that a server cannot free by eviction, and the least ``maxmemory`` that it
works with.

Below it every write fails, as under ``noeviction``.
"""

from __future__ import annotations

# Above what cannot be evicted: room for some keys, and for clients' buffers to grow.
HEADROOM_BYTES = 256 << 10
HEADROOM_RATIO = 1 / 8


def is_too_small(maxmemory_bytes: float, unevictable_bytes: float) -> bool:
    """Whether no key can be kept in it. 0 is unlimited."""
    return 0 < maxmemory_bytes <= unevictable_bytes


def least_maxmemory_bytes(maxmemory_bytes: float, unevictable_bytes: float) -> int:
    """Return how far a server may be shrunk: with headroom, but no more than it works with now.

    One that is too small, or unlimited (0), needs the headroom too.
    """
    headroom = max(HEADROOM_BYTES, HEADROOM_RATIO * unevictable_bytes)
    wanted = round(unevictable_bytes + headroom)
    if not maxmemory_bytes or is_too_small(maxmemory_bytes, unevictable_bytes):
        return wanted
    return round(min(wanted, maxmemory_bytes))
