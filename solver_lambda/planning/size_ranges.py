"""Finds the sizes that each server may have in the next plan, and what holds a server back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.units import format_size
from solver_lambda.planning.quiet_servers import is_quiet

# Codes of servers that are kept because their curve is not known yet. Of others it will never be.
_STILL_LEARNT = ("no_samples:", "few_samples:", "warming_up:")
_LISTED = 5
# A curve that may be off by so much tells nothing; one that was refuted is off by less.
_NOTHING_KNOWN = 1.0
# A miss ratio that is higher by less is as good.
_HARDLY = 0.001


class InfeasibleError(ValueError):
    """No split keeps the rules; the message says which, in one sentence."""


class SizeRange(NamedTuple):
    """Ranges from ``low_bytes`` to ``high_bytes``, both included.

    Attributes:
        kept_because: why the size is kept, or may not shrink, for people; ``None`` if it is free.
    """

    low_bytes: int
    high_bytes: int
    kept_because: str | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one size."""
        return self.low_bytes == self.high_bytes

    def nearest_bytes(self, size_bytes: int) -> int:
        """Return the size within that is nearest to ``size_bytes``."""
        return min(max(size_bytes, self.low_bytes), self.high_bytes)


def size_ranges(observation: Observation, *, lasting: bool = False) -> dict[str, SizeRange]:
    """Return the range of each server, by name.

    The rules, the strongest first:

    1. the budget: if the least sizes exceed it, rule 4 is dropped;
    2. ``keep_reason`` keeps a size as it is, and a curve whose expected error is above
       ``maximum_curve_error_ratio`` keeps it from shrinking, within the server's bounds: it may be
       that very size that made the curve wrong, so it is not kept from growing. One of which
       nothing is known yet grows only into what brings nobody hits: what it gains is a guess. A
       quiet server may lose what others gain by: next to nothing is missed of it, whatever its
       curve is;
    3. a server's minimum, as far as ``attainable_minima`` goes, and its maximum; a minimum of 0
       is one byte;
    4. ``dwell_seconds``: a server that was changed keeps its size for so long.

    With ``lasting`` rule 4 is left out, because it passes with time. ``step_limits`` has the
    rules for what a single cycle may do.

    Raises:
        InfeasibleError: the budget does not hold the sizes that must be kept, or a server without
            ``maxmemory`` has to keep it.
    """
    minima, idle_share_bytes = attainable_minima(observation), _idle_share_bytes(observation)
    ranges = {
        server.name: _lasting_range(server, observation, minima[server.name], idle_share_bytes)
        for server in observation.servers
    }
    if not lasting:
        now = {
            server.name: _range_now(server, observation, ranges[server.name])
            for server in observation.servers
        }
        if least_bytes(now) <= observation.budget_bytes:
            return now
    if least_bytes(ranges) > observation.budget_bytes:
        kept = sorted(name for name, found in ranges.items() if found.kept_because is not None)
        raise InfeasibleError(
            f"the sizes that must be kept ({listed(kept)}) sum, with a byte for each of the "
            f"others, to {format_size(least_bytes(ranges))}, more than the budget of "
            f"{format_size(observation.budget_bytes)}"
        )
    return ranges


def attainable_minima(observation: Observation) -> dict[str, int]:
    """Return the least size of each server that is not kept, by name: its minimum, if that can be
    had.

    Minima are checked against the budget when they are set, but not beside sizes that must be
    kept. Where both exceed it, what minima ask above the sizes in force is cut first, and then what
    is left of them. Each time all are cut in proportion. So one team's minimum never stops the
    planning for all; a minimum is one byte at least, because Redis takes 0 for no limit.
    """
    asked = {server.name: max(1, server.minimum_bytes) for server in observation.servers}
    held = {
        server.name: min(asked[server.name], max(1, server.maxmemory_bytes))
        for server in observation.servers
    }
    least = dict.fromkeys(asked, 1)
    for low, high in ((held, asked), (least, held)):
        needed_low, needed_high = (_needed_bytes(observation, minima) for minima in (low, high))
        if needed_high <= observation.budget_bytes:
            return high
        spare = observation.budget_bytes - needed_low
        if spare >= 0:
            return {
                name: low[name] + (high[name] - low[name]) * spare // (needed_high - needed_low)
                for name in asked
            }
    return least


def _needed_bytes(observation: Observation, minima: Mapping[str, int]) -> int:
    """Return what all servers need with these minima, those that are kept included."""
    return sum(
        server.maxmemory_bytes
        if server.keep_reason is not None
        else max(minima[server.name], _uncertain_bytes(server, observation))
        for server in observation.servers
    )


def may_not_shrink(server: ServerObservation, observation: Observation) -> bool:
    """Whether it is kept as it is, or too little is known of its curve."""
    most_error = observation.planning.maximum_curve_error_ratio
    uncertain = server.curve_error_ratio > most_error and not is_quiet(server, observation)
    return server.keep_reason is not None or uncertain


def is_little_known(server: ServerObservation, observation: Observation) -> bool:
    """Whether its curve is still learnt: it may be off by as much as a shrink allows, or more."""
    if server.keep_reason is not None:
        return server.keep_reason.startswith(_STILL_LEARNT)
    return server.curve_error_ratio >= observation.planning.maximum_curve_error_ratio


def _uncertain_bytes(server: ServerObservation, observation: Observation) -> int:
    """Return the least size of a server that its curve's error keeps from shrinking, else 0."""
    if not may_not_shrink(server, observation):
        return 0
    most = server.maximum_bytes
    return server.maxmemory_bytes if most is None else min(server.maxmemory_bytes, most)


def listed(names: list[str]) -> str:
    """List names for people; of many, the first."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def least_bytes(ranges: Mapping[str, SizeRange]) -> int:
    """Return the least that all servers take together."""
    return sum(found.low_bytes for found in ranges.values())


def _lasting_range(
    server: ServerObservation, observation: Observation, low: int, idle_share_bytes: int
) -> SizeRange:
    """``low`` is its attainable minimum."""
    high = observation.budget_bytes if server.maximum_bytes is None else server.maximum_bytes
    size = server.maxmemory_bytes
    most_error = observation.planning.maximum_curve_error_ratio
    if server.keep_reason is not None:
        low, high, reason = size, size, server.keep_reason
    elif server.curve_error_ratio > most_error:
        if size and is_quiet(server, observation):
            return SizeRange(low, high)
        low = min(max(size, low), high)
        if size and server.curve_error_ratio >= _NOTHING_KNOWN:
            high = min(high, max(low, size + idle_share_bytes))
        reason = (
            "too little is known of its curve: it may be off by "
            f"{100 * server.curve_error_ratio:.3g} points, and no server shrinks by one that "
            f"may be off by more than {100 * most_error:.3g}"
        )
    else:
        return SizeRange(low, high)
    if not size:
        raise InfeasibleError(
            f"{server.name} has no maxmemory and is to be kept as it is: {reason}"
        )
    return SizeRange(low, high, reason)


def _idle_share_bytes(observation: Observation) -> int:
    """Return what each server of which nothing is known may have of the memory that brings nobody
    hits."""
    count = sum(one.curve_error_ratio >= _NOTHING_KNOWN for one in observation.servers)
    if not count:
        return 0
    idle = observation.budget_bytes - sum(one.maxmemory_bytes for one in observation.servers)
    idle += sum(
        max(0, one.maxmemory_bytes - max(one.minimum_bytes, useful_bytes(one)))
        for one in observation.servers
        if one.keep_reason is None and one.curve_error_ratio < _NOTHING_KNOWN
    )
    return max(0, idle) // count


def useful_bytes(server: ServerObservation) -> int:
    """Return the least size at which it hits hardly less than with what it has."""
    now = float(server.curve.miss_ratio(server.maxmemory_bytes))
    sizes, ratios = server.curve.from_zero
    least = float(sizes[np.argmax(ratios <= now + _HARDLY)])
    return min(server.maxmemory_bytes, math.ceil(least))


def changed_lately_seconds(server: ServerObservation, observation: Observation) -> float | None:
    """Return how long ago it was changed, in seconds; ``None``: not within ``dwell_seconds``."""
    if server.changed_at_seconds is None:
        return None
    ago = observation.made_at_seconds - server.changed_at_seconds
    # A change that is still to come was noted by another clock.
    return ago if 0 <= ago < observation.planning.dwell_seconds else None


def _range_now(
    server: ServerObservation, observation: Observation, lasting: SizeRange
) -> SizeRange:
    size, planning = server.maxmemory_bytes, observation.planning
    ago = changed_lately_seconds(server, observation)
    if lasting.is_fixed or not size or ago is None:
        return lasting
    within = lasting.nearest_bytes(size)
    return SizeRange(
        within,
        within,
        f"it was changed {ago:.0f} s ago, and a change holds for {planning.dwell_seconds:.0f} s",
    )
