"""The copies that caches of different sizes have of one object: when each of them expires."""

from __future__ import annotations

# ``(from size in bytes, expires at in seconds)``, sizes ascending from 0.
Copies = list[tuple[float, float]]

_LIMIT = 8


def merged(copies: Copies) -> Copies:
    """Neighbours that expire at once are one; of very many, those of small caches are given up."""
    told = [
        copy for place, copy in enumerate(copies) if not place or copy[1] != copies[place - 1][1]
    ]
    return told if len(told) <= _LIMIT else [told[0], *told[1 - _LIMIT :]]


def at_size(copies: Copies, size_bytes: float) -> float:
    """Return when the copy of a cache of ``size_bytes`` expires."""
    expires_at = copies[0][1]
    for start, at in copies:
        if start > size_bytes:
            break
        expires_at = at
    return expires_at


def last_of(copies: Copies) -> float:
    """Return when the last of them expires."""
    return max(at for _, at in copies)
