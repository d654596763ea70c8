"""What one client asks for, in order, and how long its backend takes for each request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.traces.trace_reader import TraceError, load_trace
from workloads.zipf import key_sizes, zipf_keys


@dataclass(frozen=True, eq=False)
class Load:
    """Requests for one server.

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
