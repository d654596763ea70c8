"""Reads ``[memory]``: what may be divided, as a size or as a share of what there is."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sidecar.base.machine_memory import LIMIT_FILES, has_limit_file, memory_limit
from sidecar.config.fields import duration, size
from solver_lambda.documents.reader import DocumentError, Fields, shown
from solver_lambda.documents.units import format_size

LEAST_UNIT_BYTES = 65536
MOST_UNITS = 65536
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*", re.ASCII)


class Amount(NamedTuple):
    """Has ``bytes``, or the ``share`` (0 to 1) of what the machine or the cgroup has."""

    bytes: int | None = None
    share: float | None = None

    def of(self, limit_bytes: int) -> int:
        """Return the amount in bytes, where there are so many."""
        return self.bytes if self.bytes is not None else int((self.share or 0.0) * limit_bytes)

    def __str__(self) -> str:
        """Write it as an operator does."""
        if self.bytes is not None:
            return format_size(self.bytes).replace(" ", "")
        return f"{100 * (self.share or 0.0):g}%"


@dataclass(frozen=True)
class MemoryConfig:
    """Says what may be divided, and how carefully.

    Attributes:
        budget_bytes: M, or what it was when the file was read, if it is a share.
        budget_share: of the memory of the machine or the cgroup, 0 to 1, which may change;
            ``None``: M is a size.
        cgroup: whose limit counts; ``None``: the sidecar's own.
        rss_budget: of the servers' resident memory together; ``None``: it is not held.
        unit_bytes: granularity of plans.
        rss_wait_seconds: how long growth waits for the resident memory of servers that shrank
            to fall, before only ``used_memory`` counts; with 0 it does not count at all.
        eviction_tenacity: ``maxmemory-eviction-tenacity`` outside a shrink, for a server that is
            found with 0, which an interrupted shrink leaves behind.
        holds_by_hand: a size that somebody sets by hand stays; otherwise the planned one is put
            back.
    """

    budget_bytes: int
    budget_share: float | None = None
    cgroup: Path | None = None
    rss_budget: Amount | None = None
    unit_bytes: int = LEAST_UNIT_BYTES
    rss_wait_seconds: float = 60.0
    eviction_tenacity: int = 10
    holds_by_hand: bool = True

    @property
    def budget(self) -> Amount:
        """Return M as the file has it."""
        if self.budget_share is None:
            return Amount(bytes=self.budget_bytes)
        return Amount(share=self.budget_share)

    @property
    def as_written(self) -> MemoryConfig:
        """Return it without what the machine had to say: equal for two readings of one file."""
        if self.budget_share is None:
            return self
        return replace(self, budget_bytes=0, unit_bytes=0)


def read_memory(fields: Fields, folder: Path) -> MemoryConfig:
    """Read ``[memory]``. Raises DocumentError, also where nobody says of what a share is."""
    cgroup = folder / fields.text("cgroup") if fields.has("cgroup") else None
    if cgroup is not None and not has_limit_file(cgroup):
        names = " nor ".join(LIMIT_FILES)
        raise fields.refuse(
            "cgroup", f"{str(cgroup)!r} is no memory cgroup: it has neither {names}"
        )
    budget = _amount(fields, "budget")
    rss_budget = _amount(fields, "rss_budget") if fields.has("rss_budget") else None
    if cgroup is not None and budget.share is None and not (rss_budget and rss_budget.share):
        raise fields.refuse(
            "cgroup", "says of what budget or rss_budget is a share: neither is one"
        )
    limit_bytes = _limit_bytes(fields, cgroup, budget, rss_budget)
    budget_bytes = max(LEAST_UNIT_BYTES, budget.of(limit_bytes))
    # The smallest power of two that leaves the solver a grid of a size it can certify.
    unit = max(LEAST_UNIT_BYTES, 1 << math.ceil(math.log2(budget_bytes / MOST_UNITS)))
    memory = MemoryConfig(
        budget_bytes=budget_bytes,
        budget_share=budget.share,
        cgroup=cgroup,
        rss_budget=rss_budget,
        unit_bytes=size(fields, "unit", default=unit, low=1),
        rss_wait_seconds=duration(fields, "rss_wait", default=MemoryConfig.rss_wait_seconds),
        eviction_tenacity=fields.integer(
            "eviction_tenacity", MemoryConfig.eviction_tenacity, low=0, high=100
        ),
        holds_by_hand=fields.text("set_by_hand", "hold", ("hold", "put_back")) == "hold",
    )
    fields.done()
    return memory


def _amount(fields: Fields, key: str) -> Amount:
    value = fields.value(key)
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        if isinstance(value, str) and ("%" in value or "percent" in value):
            raise fields.refuse(key, f"must be a share such as '75%', not {shown(value)}")
        return Amount(bytes=size(fields, key, low=LEAST_UNIT_BYTES))
    percent = float(match[1])
    if not 1 <= percent <= 100:
        raise fields.refuse(key, f"must be at least 1% and at most 100%, not {shown(value)}")
    return Amount(share=percent / 100)


def _limit_bytes(fields: Fields, cgroup: Path | None, *amounts: Amount | None) -> int:
    """Return what a share is a share of; not asked where there is none."""
    if not any(amount and amount.share is not None for amount in amounts):
        return 0
    try:
        return memory_limit(cgroup).bytes
    except (OSError, ValueError) as error:
        raise DocumentError(
            f"{fields.source}: {fields.where('budget')} is a share, and how much memory there is "
            f"cannot be read: {error}"
        ) from error
