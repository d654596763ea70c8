"""Requests of the Independent Reference Model with Zipf popularity, and sizes for their keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SIZE_SPREAD = 0.5  # sigma of the logarithm; the sizes within one cache differ by about 3 times
MAX_OBJECT_BYTES = 512 * 1024 * 1024  # Redis' own limit for a string


def zipf_keys(
    key_count: int, skew: float, request_count: int, random: np.random.Generator
) -> npt.NDArray[np.uint64]:
    """Independent draws: key k (0 is the most popular) has probability ~ 1 / (k + 1)^skew.

    Returns:
        shape (request_count,), uint64.
    """
    cumulative = np.cumsum(np.arange(1, key_count + 1, dtype=np.float64) ** -skew)
    draws = random.random(request_count) * cumulative[-1]
    keys = np.searchsorted(cumulative, draws, side="right")
    places: npt.NDArray[np.int64] = np.minimum(keys, key_count - 1)
    return places.astype(np.uint64)


def key_sizes(
    key_count: int, mean_bytes: float, random: np.random.Generator
) -> npt.NDArray[np.uint32]:
    """A size for each key, log-normal about ``mean_bytes``, independent of its popularity.

    Returns:
        shape (key_count,), uint32, at least 1.
    """
    logarithms = random.normal(-(SIZE_SPREAD**2) / 2, SIZE_SPREAD, key_count)
    sizes = np.clip(mean_bytes * np.exp(logarithms), 1, MAX_OBJECT_BYTES)
    return sizes.astype(np.uint32)
