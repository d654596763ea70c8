"""Divides sampled objects into groups: each is a smaller sample, and independent of the others."""

from __future__ import annotations

# An object's group is its hash, shifted by ``GROUP_SHIFT``, modulo this.
GROUPS = 16
# Bits of the hash that the sampling does not look at (P is 2^32 at most).
GROUP_SHIFT = 32
