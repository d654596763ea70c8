"""Tells the budget as it is now: the file's size, or a share of what machine or cgroup has. It is
less where resident memory has to stay within bounds."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Literal

from sidecar.base.machine_memory import memory_limit
from sidecar.base.metrics import Metrics
from sidecar.config.memory import LEAST_UNIT_BYTES, Amount, MemoryConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.resident_budget import Headroom, ResidentBudget, headroom_of
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

Source = Literal["file", "machine", "cgroup", "rss"]
# A little less than between two steps of an actuator that has nothing to do.
REFRESH_SECONDS = 0.9
# Less than that nobody is told of.
TOLD_RATIO = 0.005


class MemoryBudget:
    """Any thread may read it; one thread at a time calls ``refresh``.

    Attributes:
        bytes: what ``maxmemory`` may sum to now.
        ceiling_bytes: the same without regard to resident memory: how far curves must reach.
        rss_budget_bytes: what resident memory may sum to; ``None``: it is not held.
        configured: as the operator wrote it; ``is_guessed``: as a share, and not of what.
        is_vain: resident memory stays too high, however much ``maxmemory`` is lowered.
    """

    def __init__(
        self,
        memory: MemoryConfig,
        metrics: Metrics,
        servers: int = 1,
        minima_bytes: Callable[[], int] = lambda: 0,
        before_fall_bytes: int = 0,
    ) -> None:
        self._metrics = metrics
        self._minima_bytes = minima_bytes
        self._memory = memory
        self._least_bytes = max(1, servers) * LEAST_UNIT_BYTES
        self._resident = ResidentBudget(metrics, before_fall_bytes) if memory.rss_budget else None
        self._headroom = Headroom()
        self._refreshed_at = -math.inf
        self._acted = True
        self._limit_bytes = 0
        self._may_log = True
        self._ceiling_source: Source = "file"
        self.ceiling_bytes = memory.budget_bytes
        self.rss_budget_bytes: int | None = None
        self.configured = str(memory.budget)
        self.is_guessed = memory.budget_share is not None and memory.cgroup is None
        self._follow_machine()
        self.bytes = self._told_bytes = self.ceiling_bytes
        self.source: Source = self._ceiling_source

    def refresh(
        self,
        readings: Sequence[ServerReading],
        now_seconds: float | None = None,
        *,
        acts: bool = True,
        unread_bytes: int = 0,
    ) -> bool:
        """Look anew at the machine and at these servers, those that answer; whether ``bytes`` has
        changed. Called more than about once a second, with the same ``acts``, it does nothing.

        ``now_seconds``: of any clock that does not jump. ``acts``: sizes are set by it.
        ``unread_bytes``: planned for those that do not answer.
        """
        now = time.monotonic() if now_seconds is None else now_seconds
        is_same, self._acted = acts == self._acted, acts
        if is_same and now - self._refreshed_at < REFRESH_SECONDS:
            return False
        self._refreshed_at = now
        self._follow_machine()
        self._headroom = headroom_of(readings)
        size_bytes, source = self.ceiling_bytes, self._ceiling_source
        if self._resident is not None and self.rss_budget_bytes is not None:
            # Whatever resident memory is said to be: it is no reason to empty all caches.
            least = max(self._minima_bytes(), min(size_bytes, self.rss_budget_bytes) // 2)
            within = self._resident.look(
                readings,
                self.rss_budget_bytes,
                now,
                least_bytes=min(least, size_bytes),
                acts=acts,
                unread_bytes=unread_bytes,
            )
            if within is not None and within < size_bytes:
                size_bytes, source = within, "rss"
        return self._use(max(self._least_bytes, size_bytes), source)

    def headroom(self) -> dict[str, int]:
        """Return resident memory above what ``maxmemory`` counts, by kind, in bytes."""
        return self._headroom._asdict()

    @property
    def is_vain(self) -> bool:
        """Whether resident memory stays above its budget whatever is taken."""
        return self._resident is not None and self._resident.is_vain

    @property
    def waits_for_pages(self) -> bool:
        """Whether servers that shrank should go on giving pages back to the machine."""
        return self._resident is not None and self._resident.waits_for_pages

    def _use(self, size_bytes: int, source: Source) -> bool:
        before, self.bytes, self.source = self.bytes, size_bytes, source
        told = self._told_bytes
        if abs(size_bytes - told) >= TOLD_RATIO * told:
            self._told_bytes = size_bytes
            self._metrics.budget_changes.labels("less" if size_bytes < told else "more").inc()
            log.info(
                "the budget is %s now, it was %s: by %s",
                format_size(size_bytes),
                format_size(told),
                "resident memory" if source == "rss" else f"the {source}",
            )
        return size_bytes != before

    def _follow_machine(self) -> None:
        memory = self._memory
        amounts = [memory.budget] + ([memory.rss_budget] if memory.rss_budget else [])
        if all(amount.share is None for amount in amounts):
            self.rss_budget_bytes = memory.rss_budget.bytes if memory.rss_budget else None
            return
        try:
            limit = memory_limit(memory.cgroup)
        except (OSError, ValueError) as error:
            self._metrics.budget_unread.inc()
            if self._may_log:
                self._may_log = False
                log.warning("the limit of memory cannot be read, the last one counts: %s", error)
            return
        self._may_log = True
        if memory.budget_share is not None:
            self.ceiling_bytes = max(self._least_bytes, memory.budget.of(limit.bytes))
            self._ceiling_source = limit.source
        if memory.rss_budget is not None:
            self.rss_budget_bytes = _of(memory.rss_budget, limit.bytes)


def _of(amount: Amount, limit_bytes: int) -> int:
    return max(LEAST_UNIT_BYTES, amount.of(limit_bytes))
