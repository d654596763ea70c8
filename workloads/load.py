"""What one client asks for, in order, and how long its backend takes for each request.

It is drawn by the Independent Reference Model with Zipf popularity, or by the distributions of a
Meta cache (CacheLib, ``kvcache_reg``), or is a trace's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.traces.trace_reader import TraceError, load_trace

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


KVCACHE_FOLDER = "cachelib/kvcache_reg"
# The fifty larger ones of sixty thousand keys, instead of ten million, would be half of all bytes.
_LARGEST_BYTES = 16_384


def kvcache_keys(
    folder: Path, key_count: int, request_count: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Draw keys independently. ``pop.json`` tells how often the keys of each bucket were read; of
    its ten million keys, evenly spaced ones by rank stand for all. Sizes above 16 KiB, one in a
    thousand, are left out.

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
    """Read a JSON document. Raises OSError, ValueError."""
    try:
        found: dict[str, list[int]] = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    return found


@dataclass(frozen=True, eq=False)
class Load:
    """Holds requests for one server.

    Attributes:
        keys: shape (n,), the texts.
        sizes_bytes: shape (n,), key and value.
        backend_seconds: shape (n,), what a miss of each request costs. Drawn for hits too, so
            that two runs with other hits compare the same draws.
        description: for people.
        times_seconds: shape (n,), as a trace has them; ``None`` where the load is generated.
    """

    keys: list[bytes]
    sizes_bytes: list[int]
    backend_seconds: npt.NDArray[np.float64]
    description: str
    times_seconds: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.keys)


def zipf_load(
    *,
    request_count: int,
    key_count: int,
    skew: float,
    mean_bytes: float,
    backend_latency_seconds: float,
    seed: int,
) -> Load:
    """A generated load; the same arguments give the same load."""
    random = np.random.default_rng(seed)
    sizes = key_sizes(key_count, mean_bytes, random)
    keys = zipf_keys(key_count, skew, request_count, random)
    return Load(
        [b"key:%d" % key for key in keys.tolist()],
        sizes[keys].tolist(),
        random.exponential(backend_latency_seconds, request_count),
        f"generated: Zipf {skew:g} over {key_count:,} keys of {mean_bytes:,.0f} bytes",
    )


def trace_load(
    path: Path,
    *,
    request_count: int | None = None,
    object_bytes: int | None = None,
    backend_latency_seconds: float,
    seed: int,
    shift: bool = False,
    format: str | None = None,  # noqa: A002
) -> Load:
    """Requests of a trace: ``request_count`` of them (all if ``None``) from its start.

    Args:
        object_bytes: for every object, instead of the trace's sizes.
        shift: start at a place in the trace that the seed chooses.

    Raises:
        TraceError: the trace cannot be read, or is shorter than ``request_count``.
    """
    random = np.random.default_rng(seed)
    chunk = load_trace(path, format, texts=True, limit=None if shift else request_count)
    count = len(chunk) if request_count is None else request_count
    if len(chunk) < count:
        raise TraceError(f"{path}: has {len(chunk)} requests, fewer than the {count} asked for")
    start = int(random.integers(len(chunk) - count + 1)) if shift else 0
    part = slice(start, start + count)
    assert chunk.texts is not None
    sizes = chunk.sizes_bytes[part].tolist() if object_bytes is None else [object_bytes] * count
    return Load(
        chunk.texts[part],
        sizes,
        random.exponential(backend_latency_seconds, count),
        f"trace {path.name}, requests {start:,} to {start + count:,}",
        chunk.times_seconds[part],
    )
