"""Tells what is wanted of a trace while it is read."""

from __future__ import annotations

from sidecar.traces.operations import Operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Progress = Callable[[float], None]

_MOST_SIZED = 200_000


class ReadOptions:
    """Tells what is wanted of a trace while it is read.

    Attributes:
        in_bytes, timed: sizes, times are needed: a format without is refused.
        may_lack: of ``time`` and ``size``, what a table need not have.
        texts: each key's text is wanted too.
        spelt_out: a line that stands for many requests is given as so many.
        ticks_per_second: the unit of the trace's times.
        unit_is_given: somebody said so, or the format does.
        columns: by what they say, the names of those that are taken from a table with a header;
            ``unused``: the others.
        progress: called with the share of the file that has been read, in (0, 1].
        operations: which requests count, and what was seen of them.
        sized, unsized: of the first requests, where sizes count: how many were looked at, and how
            many of them have the size 0.
    """

    def __init__(
        self,
        *,
        in_bytes: bool = False,
        timed: bool = False,
        may_lack: Sequence[str] = (),
        texts: bool = False,
        spelt_out: bool = True,
        ticks_per_second: float | None = None,
        progress: Progress | None = None,
        reads: Iterable[bytes] = (),
    ) -> None:
        self.in_bytes, self.timed, self.may_lack = in_bytes, timed, may_lack
        self.texts, self.spelt_out = texts, spelt_out
        self.unit_is_given = ticks_per_second is not None
        self.ticks_per_second, self.progress = ticks_per_second or 1.0, progress
        self.columns: dict[str, str] = {}
        self.unused: list[str] = []
        self.operations = Operations(reads)
        self.sized = self.unsized = 0

    def look_at_sizes(self, parsed: Any) -> None:
        """Count those of ``ParsedRequests`` that have none."""
        if self.in_bytes and self.sized < _MOST_SIZED:
            self.sized += parsed.requests
            self.unsized += parsed.sizes_bytes[: parsed.requests].count(0)


def unused_columns(*, in_bytes: bool, timed: bool = False) -> Sequence[str]:
    """Return what a table may lack if nobody counts in bytes, or nobody asks when a request was."""
    return [name for name, used in (("time", timed), ("size", in_bytes)) if not used]
