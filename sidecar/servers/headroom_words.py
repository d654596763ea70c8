"""What the budget is, and what comes on top of it, in words."""

from __future__ import annotations

from sidecar.config.memory import MemoryConfig
from sidecar.servers.resident_budget import (
    HOLD_SECONDS,
    LEAST_RISE_RATIO,
    MARGIN_RATIO,
    SETTLE_SECONDS,
)
from solver_lambda.documents.units import format_duration, format_size


def headroom_rule(memory: MemoryConfig) -> str:
    """For an operator who asks how much of the machine the servers will take."""
    now = ""
    if memory.budget_share is not None:
        cgroup = f"the cgroup {memory.cgroup}" if memory.cgroup else "its own cgroup"
        now = f" ({memory.budget} of the machine's memory, or of the limit of {cgroup})"
    rule = f"maxmemory of all servers sums to at most {format_size(memory.budget_bytes)}{now}. "
    if memory.rss_budget is None:
        return rule + (
            "The programs themselves, fragmentation, pages that forks copy and buffers of replicas "
            "come on top of that, and are not held: leave room for them, or set memory.rss_budget."
        )
    return rule + (
        f"Resident memory of all servers is held below {memory.rss_budget}; what the last forks "
        "copied is set aside. Where it is above, maxmemory falls at once, so that "
        f"{100 * MARGIN_RATIO:g} % stay free, and again after each "
        f"{format_duration(SETTLE_SECONDS)} in which too little came back; it rises after "
        f"{format_duration(HOLD_SECONDS)} in "
        f"which there was room for {100 * LEAST_RISE_RATIO:g} % more, by half of that room."
    )
