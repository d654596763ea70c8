"""The group of an object, by its hash."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.curves.object_groups import GROUP_SHIFT, GROUPS


def group_of(object_id: int) -> int:
    """The group of one object, by its hash."""
    return (object_id >> GROUP_SHIFT) % GROUPS


def groups_of(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """The same of many; shape as given."""
    return ((ids >> np.uint64(GROUP_SHIFT)) % np.uint64(GROUPS)).astype(np.intp)
