"""What left a stack from above a place, for many accesses at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# So many accesses of a chunk are compared pair by pair.
_BLOCK = 64
_EARLIER = np.tri(_BLOCK, k=-1, dtype=bool)


def earlier_from_above(places: IntArray, weights: IntArray) -> FloatArray:
    """Return for each of the accesses in order the weights of the earlier ones at higher places.

    All shapes (n,). Of earlier blocks it is looked up in sums by place, one for each block; within
    a block, each access is compared with each. Products of matrices add the weights up fastest;
    whole numbers below 2^53 stay exact in them.
    """
    count = len(places)
    blocks = -(-count // _BLOCK)
    numbers = np.arange(count)
    block = numbers // _BLOCK
    # 0 is the highest place, which the last of a block may share: it adds nothing.
    rank = np.zeros(blocks * _BLOCK, dtype=np.int32)
    rank[np.argsort(-places)] = numbers
    weight = np.zeros(blocks * _BLOCK)
    weight[:count] = weights
    by_rank = np.zeros((blocks, count))
    by_rank[block, rank[:count]] = weights
    earlier = np.tri(blocks, k=-1) @ by_rank.cumsum(axis=1)
    ranks = rank.reshape(blocks, 1, _BLOCK)
    higher = (ranks < ranks.swapaxes(1, 2)) & _EARLIER
    within = higher.astype(np.float64) @ weight.reshape(blocks, _BLOCK, 1)
    return np.asarray(earlier[block, rank[:count]] + within.reshape(-1)[:count])
