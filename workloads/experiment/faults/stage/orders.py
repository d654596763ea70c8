"""What a stage and the launcher of its sidecar share: files, sizes, and that both end together."""

from __future__ import annotations

import ctypes
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who does not plan starts without numpy
    from solver_lambda.documents.observation import Observation

_PR_SET_PDEATHSIG = 1
UNIT_BYTES = 1 << 16
# The environment's variable with their folder.
ORDERS = "SPREDS_FAULTS"
# Number and shares of the plan that is wanted; what is played on the next one.
PLAN, TRICK = "plan.json", "trick"
# Lines of what was done; where the process ends.
STEPS, SWITCH = "steps", "switch"
# Seconds by which its clock is off.
CLOCK = "clock"


def end_with_parent() -> None:
    """The kernel sends SIGKILL when the thread that started us ends.

    Nothing happens where the C library has no ``prctl``: then only ``kill -9`` leaves us behind.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ending_with_parent() -> tuple[str, ...]:
    """A command that runs another one so; empty where util-linux' ``setpriv`` is missing."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def divided(budget_bytes: int, shares: Sequence[int]) -> list[int]:
    """The budget in these proportions, in whole units, none of them left over the budget."""
    return [budget_bytes * share // sum(shares) // UNIT_BYTES * UNIT_BYTES for share in shares]


def wanted_sizes(observation: Observation, shares: Mapping[str, int]) -> dict[str, int]:
    """Divide an observation's budget by server in its order: a server that keeps its size keeps it,
    nobody gets less than its minimum, and the others share what is left. Where that cannot be, all
    keep what they have."""
    before = {server.name: server.maxmemory_bytes for server in observation.servers}
    least = {server.name: server.minimum_bytes for server in observation.servers}
    fixed = {s.name: s.maxmemory_bytes for s in observation.servers if s.keep_reason is not None}
    while True:
        free = [name for name in before if name not in fixed]
        left_bytes = observation.budget_bytes - sum(fixed.values())
        if left_bytes < 0:
            return before
        sizes = divided(left_bytes, [shares[name] for name in free]) if free else []
        found = dict(zip(free, sizes, strict=True))
        below = {name: least[name] for name in free if found[name] < least[name]}
        if not below:
            together = {**found, **fixed}
            return {name: together[name] for name in before}
        fixed |= below
