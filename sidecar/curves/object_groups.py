"""Groups of sampled objects: each is a smaller sample, and independent of the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

GROUPS = 16
# Bits of the hash that the sampling does not look at (P is 2^32 at most).
GROUP_SHIFT = 32


def group_of(object_id: int) -> int:
    """The group of one object, by its hash."""
    return (object_id >> GROUP_SHIFT) % GROUPS


def groups_of(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """The same of many; shape as given."""
    return ((ids >> np.uint64(GROUP_SHIFT)) % np.uint64(GROUPS)).astype(np.intp)
