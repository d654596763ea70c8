"""The miss-ratio curve of a trace under LRU, exact or by SHARDS."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sidecar.kernel.library import library
from sidecar.mrc.compiled import CompiledStack
from sidecar.traces.file import Progress

if TYPE_CHECKING:
    from sidecar.mrc.pure import PureStack
    from sidecar.traces.chunk import TraceChunk


class TraceCurve(NamedTuple):
    """Miss ratio over cache size, cold misses included.

    Attributes:
        sizes: shape (k,), increasing, in objects or bytes (key and value, no overhead).
        miss_ratios: shape (k,), of caches of those sizes; a step function between them.
        requests, sampled: seen, and of sampled objects.
        live_objects: sampled ones, at the end.
        compulsory_miss_ratio: of a cache without a limit.
    """

    sizes: Sequence[int]
    miss_ratios: Sequence[float]
    requests: int
    sampled: int
    live_objects: int
    compulsory_miss_ratio: float

    def miss_ratio(self, size: float) -> float:
        """Miss ratio at a size; 1 below the first point."""
        place = bisect_right(self.sizes, size)
        return self.miss_ratios[place - 1] if place else 1.0

    def miss_ratios_at(self, sizes: Iterable[float]) -> list[float]:
        """Miss ratio at each size."""
        return [self.miss_ratio(size) for size in sizes]

    def size_for_hit_ratio(self, hit_ratio: float) -> int | None:
        """The smallest size with this hit ratio, or ``None``: no cache is large enough."""
        wanted = hit_ratio - 1e-12
        place = bisect_left(self.miss_ratios, wanted, key=lambda ratio: 1 - ratio)
        return self.sizes[place] if place < len(self.sizes) else None


def estimate_curve(
    chunks: Iterable[TraceChunk],
    *,
    in_bytes: bool = False,
    rate: float = 1.0,
    limit_objects: int | None = None,
    salt: int = 0,
    compiled: bool | None = None,
) -> TraceCurve:
    """Read a whole trace.

    Args:
        chunks: of the trace.
        in_bytes: by bytes instead of objects.
        rate: fixed-rate SHARDS; 1 is exact (by bytes, to 0.1 % of the size).
        limit_objects: fixed-size SHARDS with so many live objects.
        salt: chooses the sample.
        compiled: the C library or Python; ``None``: what there is.

    Sampled curves have the first-bucket correction (SHARDS_adj): sampled requests stand for as
    many as there were; the difference are hits at any size, since it comes from very frequent
    objects being in the sample or not.
    """
    stack = _stack_kind(compiled)(
        in_bytes=in_bytes, rate=rate, limit_objects=limit_objects, salt=salt
    )
    for chunk in chunks:
        stack.take(chunk)
    return _curve(stack)


def estimate_curve_of_file(
    path: Path,
    format: str | None = None,  # noqa: A002
    *,
    in_bytes: bool = False,
    rate: float = 1.0,
    limit_objects: int | None = None,
    salt: int = 0,
    progress: Progress | None = None,
    compiled: bool | None = None,
) -> TraceCurve:
    """The same of a file, several times faster where there is the C library.

    Args:
        path: of the file.
        format: one of ``traces.file.FORMATS``, or ``None`` to find out.
        in_bytes, rate, limit_objects, salt, compiled: as of ``estimate_curve``.
        progress: called with the share of the file that has been read, in (0, 1].

    Raises:
        TraceError: the file cannot be read.
    """
    stack = _stack_kind(compiled)(
        in_bytes=in_bytes, rate=rate, limit_objects=limit_objects, salt=salt
    )
    stack.take_file(path, format, progress)
    return _curve(stack)


def _stack_kind(compiled: bool | None) -> type[CompiledStack] | type[PureStack]:
    if library() is not None if compiled is None else compiled:
        return CompiledStack
    from sidecar.mrc.pure import PureStack

    return PureStack


def _curve(stack: CompiledStack | PureStack) -> TraceCurve:
    distances, counts = stack.histogram()
    requests = max(stack.requests, 1)
    beyond = list(accumulate(reversed(counts), initial=stack.cold))[-2::-1]
    return TraceCurve(
        distances,
        [min(missed / requests, 1.0) for missed in beyond],
        stack.requests,
        stack.sampled,
        stack.live_objects,
        min(stack.cold / requests, 1.0),
    )
