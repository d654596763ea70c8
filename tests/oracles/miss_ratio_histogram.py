"""What ``MissRatioHistogram.add`` does, in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.curves.miss_ratio_histogram import (
    COARSE_EDGES_BYTES,
    EDGES_BYTES,
    FloatArray,
    MissRatioHistogram,
)
from tests.oracles.object_groups import groups_of


def add(
    histogram: MissRatioHistogram,
    distances_bytes: FloatArray,
    weight: float,
    ids: npt.NDArray[np.uint64],
) -> None:
    """Count reads, as ``MissRatioHistogram.add``."""
    counts, groups = histogram.counts, histogram.groups
    buckets = np.searchsorted(EDGES_BYTES, distances_bytes)
    counts.new += weight * np.bincount(buckets, minlength=len(counts.new))
    width = groups.new.shape[1]
    cells = groups_of(ids) * width + np.searchsorted(COARSE_EDGES_BYTES, distances_bytes)
    groups.new += weight * np.bincount(cells, minlength=groups.new.size).reshape(groups.new.shape)
