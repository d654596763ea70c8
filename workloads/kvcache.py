"""Reads and sizes by the distributions of a key-value cache of Meta (CacheLib, ``kvcache_reg``)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

KVCACHE_FOLDER = "cachelib/kvcache_reg"
# The fifty larger ones of sixty thousand keys, instead of ten million, would be half of all bytes.
_LARGEST_BYTES = 16_384


def kvcache_keys(
    folder: Path, key_count: int, request_count: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Independent draws. ``pop.json`` tells how often the keys of each bucket were read; of its ten
    million keys, evenly spaced ones by rank stand for all. Sizes above 16 KiB, one in a thousand,
    are left out.

    Returns:
        keys, shape (request_count,); sizes of keys and values in bytes, shape (key_count,).

    Raises:
        OSError, ValueError: a file is missing or broken.
    """
    popularity = _document(folder / "pop.json")
    counts = np.array(popularity["popularityBuckets"])
    reads_of_one = np.array(popularity["popularityWeights"]) / counts
    ranks = (np.arange(key_count) + 0.5) / key_count * counts.sum()
    cumulative = np.cumsum(reads_of_one[np.searchsorted(np.cumsum(counts), ranks)])
    drawn = np.searchsorted(cumulative, random.random(request_count) * cumulative[-1])
    sizes = _document(folder / "sizes.json")
    shares = np.array(sizes["valSizeRangeProbability"], dtype=np.float64)
    ends = np.array(sizes["valSizeRange"])
    shares[ends > _LARGEST_BYTES] = 0
    own = ends[random.choice(len(shares), key_count, p=shares / shares.sum())]
    return drawn.astype(np.uint64), own.astype(np.uint32)


def _document(file: Path) -> dict[str, list[int]]:
    """Raises OSError, ValueError."""
    try:
        found: dict[str, list[int]] = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    return found
