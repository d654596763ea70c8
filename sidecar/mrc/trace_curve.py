"""Makes the miss-ratio curve of a trace under LRU, exact or by SHARDS."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from sidecar.mrc.trace_stack import TraceStack, take_file
from sidecar.traces.read_options import ReadOptions, unused_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sidecar.mrc.seen_times import SeenTimes
    from sidecar.traces.chunk import TraceChunk
    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import Progress

# Samples of which the standard error of one that is so many times as large is estimated.
PARTS = 8
# Far from those that a user counts up.
_OTHER_SALTS = 1 << 63


class TraceCurve:
    """Holds the miss ratio over cache size, cold misses included.

    Attributes:
        sizes: shape (k,), increasing, in objects or bytes (key and value, no overhead).
        miss_ratios: shape (k,), of caches of those sizes; a step function between them.
        requests, sampled: seen, and of sampled objects.
        live_objects: sampled ones, at the end.
        compulsory_miss_ratio: of a cache without a limit.
        parts: curves of other samples, ``PARTS`` times smaller; none for an exact curve, and where
            no errors were asked for.
        dropped: how many requests were no reads and do not count, by what they did.
        columns: by what they say, the names of a table's columns that were taken; ``unused``: the
            others.
        unsized_ratio: of the first requests, share that has the size 0; 0 where sizes do not count.
        went_back: how many times were earlier than one before; ``None``: nobody looked.
        span_seconds: of the times; ``None``: nobody looked.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        miss_ratios: Sequence[float],
        requests: int,
        sampled: int,
        live_objects: int,
        compulsory_miss_ratio: float,
        parts: Sequence[TraceCurve] = (),
    ) -> None:
        self.sizes = sizes
        self.miss_ratios = miss_ratios
        self.requests = requests
        self.sampled = sampled
        self.live_objects = live_objects
        self.compulsory_miss_ratio = compulsory_miss_ratio
        self.parts = parts
        self.dropped: Mapping[str, int] = {}
        self.columns: Mapping[str, str] = {}
        self.unused: Sequence[str] = ()
        self.unsized_ratio = 0.0
        self.went_back: int | None = None
        self.span_seconds: float | None = None

    def take_words(self, other: TraceCurve, options: ReadOptions, seen: SeenTimes) -> None:
        """Say of the trace what its ``other`` curve says, which columns it took when it was read
        once more, and what its times are like."""
        self.dropped = other.dropped
        self.columns, self.unused = options.columns, options.unused
        self.went_back, self.span_seconds = seen.went_back, seen.span_seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TraceCurve) and self._values() == other._values()

    def _values(self) -> list[object]:
        columns = (list(self.sizes), list(self.miss_ratios), list(self.parts))
        counts = (self.requests, self.sampled, self.live_objects, self.compulsory_miss_ratio)
        return [*columns, *counts]

    __hash__ = None  # type: ignore[assignment]

    def miss_ratio(self, size: float) -> float:
        """Return the miss ratio at a size; 1 below the first point."""
        place = bisect_right(self.sizes, size)
        return self.miss_ratios[place - 1] if place else 1.0

    def miss_ratios_at(self, sizes: Iterable[float]) -> list[float]:
        """Return the miss ratio at each size."""
        return [self.miss_ratio(size) for size in sizes]

    def standard_errors_at(self, sizes: Sequence[float]) -> list[float]:
        """Return the miss ratio's standard error at each size, by how much the ``parts`` differ; 0
        without them."""
        if not self.parts:
            return [0.0] * len(sizes)
        errors = []
        for ratios in zip(*(part.miss_ratios_at(sizes) for part in self.parts), strict=True):
            mean = sum(ratios) / len(ratios)
            square = sum((ratio - mean) ** 2 for ratio in ratios) / (len(ratios) - 1)
            errors.append((square / len(ratios)) ** 0.5)
        return errors

    def size_for_hit_ratio(self, hit_ratio: float) -> int | None:
        """Return the smallest size with this hit ratio, or ``None``: no cache is large enough."""
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
) -> TraceCurve:
    """Read a whole trace.

    Args:
        chunks: of the trace.
        in_bytes: by bytes instead of objects.
        rate: fixed-rate SHARDS; 1 is exact (by bytes, to 0.1 % of the size).
        limit_objects: fixed-size SHARDS with so many live objects.
        salt: chooses the sample.

    Sampled curves have the first-bucket correction (SHARDS_adj): sampled requests stand for as
    many as there were; the difference are hits at any size, since it comes from very frequent
    objects being in the sample or not.
    """
    stack = TraceStack(in_bytes=in_bytes, rate=rate, limit_objects=limit_objects, salt=salt)
    for chunk in chunks:
        stack.take(chunk)
    return _curve(stack)


def estimate_curve_of_file(
    path: TracePath,
    format: str | None = None,  # noqa: A002
    *,
    in_bytes: bool = False,
    rate: float = 1.0,
    limit_objects: int | None = None,
    salt: int = 0,
    progress: Progress | None = None,
    with_errors: bool = False,
    reads: Iterable[bytes] = (),
) -> TraceCurve:
    """Do the same for a file, several times as fast.

    Args:
        path: of the file, or ``traces.file.STDIN``.
        format: one of ``traces.registry.FORMATS``, or ``None`` to find out.
        in_bytes, rate, limit_objects, salt: as of ``estimate_curve``.
        progress: called with the share of the file that has been read, in (0, 1].
        with_errors: also take what ``standard_errors_at`` needs, for about as much work again.
        reads: operations that count beside ``operations.READS``.

    Raises:
        TraceError: the file cannot be read.
    """
    stacks = [TraceStack(in_bytes=in_bytes, rate=rate, limit_objects=limit_objects, salt=salt)]
    if with_errors and (rate < 1 or limit_objects):
        stacks += [
            TraceStack(
                in_bytes=in_bytes,
                rate=rate / PARTS if rate < 1 else 1.0,
                limit_objects=limit_objects and max(1, limit_objects // PARTS),
                salt=(salt + _OTHER_SALTS + part) % 2**64,
            )
            for part in range(PARTS)
        ]
    unused = unused_columns(in_bytes=in_bytes)
    options = ReadOptions(in_bytes=in_bytes, may_lack=unused, progress=progress, reads=reads)
    take_file(stacks, path, format, options)
    curve = _curve(stacks[0], [_curve(stack) for stack in stacks[1:]])
    curve.dropped = options.operations.dropped()
    curve.columns, curve.unused = options.columns, options.unused
    curve.unsized_ratio = options.unsized / max(1, options.sized)
    return curve


def _curve(stack: TraceStack, parts: Sequence[TraceCurve] = ()) -> TraceCurve:
    sizes, miss_ratios = stack.curve()
    return TraceCurve(
        sizes,
        miss_ratios,
        stack.requests,
        stack.sampled,
        stack.live_objects,
        min(stack.cold / max(stack.requests, 1), 1.0),
        parts,
    )
