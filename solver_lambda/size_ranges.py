"""The sizes that each server may have in the next plan, and what holds a server back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from solver_lambda.observation import Observation, ServerObservation

# With fewer reads in its window a server is quiet: its rate is known to a third at best, and may
# be anything in the next window.
QUIET_READS = 10.0
# So it loses at most this part of its size in one cycle, beside what the budget forces.
QUIET_STEP_RATIO = 0.1
_LISTED = 5


class InfeasibleError(ValueError):
    """No split keeps the rules; the message says which, in one sentence."""


class SizeRange(NamedTuple):
    """From ``low_bytes`` to ``high_bytes``, both included.

    Attributes:
        kept_because: why the size is not free, for people; ``None`` if it is.
    """

    low_bytes: int
    high_bytes: int
    kept_because: str | None = None


class Step(NamedTuple):
    """How far sizes go towards a wanted split in one cycle.

    Attributes:
        ranges: by name.
        because: what shortens the way, for people.
    """

    ranges: dict[str, SizeRange]
    because: str


def is_quiet(server: ServerObservation, observation: Observation) -> bool:
    """Whether the window had too few reads to plan by."""
    return server.request_rate_per_second * observation.window_seconds < QUIET_READS


def size_ranges(observation: Observation, *, lasting: bool = False) -> dict[str, SizeRange]:
    """The range of each server, by name.

    The rules, the strongest first:

    1. the budget: if the least sizes exceed it, rule 4 is dropped;
    2. ``keep_reason`` and a curve whose expected error is above ``maximum_curve_error_ratio``
       keep a size as it is (the second within the server's bounds);
    3. a server's minimum and maximum; a minimum of 0 is one byte;
    4. ``dwell_seconds``: a server that was changed keeps its size for so long.

    With ``lasting`` rule 4 is left out, because it passes with time. ``step_towards`` has the
    rules for what a single cycle may do.

    Raises:
        InfeasibleError: the budget does not hold the least sizes, or a server without
            ``maxmemory`` has to keep it.
    """
    if not lasting:
        ranges = {server.name: _range_now(server, observation) for server in observation.servers}
        if _least(ranges) <= observation.budget_bytes:
            return ranges
    ranges = {server.name: _lasting_range(server, observation) for server in observation.servers}
    if _least(ranges) > observation.budget_bytes:
        kept = sorted(name for name, found in ranges.items() if found.kept_because)
        raise InfeasibleError(
            f"the sizes that must be kept ({_listed(kept)}) and the minima of the others sum to "
            f"{_least(ranges)} bytes, more than the budget of {observation.budget_bytes}"
        )
    return ranges


def step_towards(
    wanted_bytes: Mapping[str, int], observation: Observation, ranges: Mapping[str, SizeRange]
) -> Step | None:
    """What one cycle may do of the way to a split; ``None`` if it may go there at once.

    * ``max_step_ratio`` is the most that a server gains or loses, but it may move by one unit;
    * a quiet server loses ``QUIET_STEP_RATIO`` of its size at most, and what the sizes in force
      (or the bounds, where these ask for more) exceed the budget by.

    A server goes towards its wanted size only. Where the budget does not allow that, it may go
    either way; where even so the least sizes exceed it, the rules are dropped.
    """
    excess = -observation.budget_bytes
    for server in observation.servers:
        found = ranges[server.name]
        excess += min(max(server.maxmemory_bytes, found.low_bytes), found.high_bytes)
    steps: dict[str, SizeRange] = {}
    ways: dict[str, SizeRange] = {}
    held_by: dict[str, list[str]] = {}
    for server in observation.servers:
        found, wanted = ranges[server.name], wanted_bytes[server.name]
        step = _step_range(server, found, observation, max(0, excess))
        if wanted < step.low_bytes or wanted > step.high_bytes:
            assert step.kept_because is not None, "the size was in range before the step was cut"
            held_by.setdefault(step.kept_because, []).append(server.name)
        size = min(max(server.maxmemory_bytes, step.low_bytes), step.high_bytes)
        steps[server.name] = step._replace(kept_because=found.kept_because)
        ways[server.name] = SizeRange(
            max(step.low_bytes, min(size, wanted)),
            min(step.high_bytes, max(size, wanted)),
            found.kept_because,
        )
    if held_by:
        because = "; ".join(f"{why} {_listed(names)}" for why, names in held_by.items())
        for limited in (ways, steps):
            if _least(limited) <= observation.budget_bytes:
                return Step(limited, because)
    return None


def _listed(names: list[str]) -> str:
    """Names for people; of many, the first."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _least(ranges: Mapping[str, SizeRange]) -> int:
    return sum(found.low_bytes for found in ranges.values())


def _lasting_range(server: ServerObservation, observation: Observation) -> SizeRange:
    high = observation.budget_bytes if server.maximum_bytes is None else server.maximum_bytes
    # Redis takes a maxmemory of 0 for no limit.
    low = max(1, server.minimum_bytes)
    size = server.maxmemory_bytes
    most_error = observation.planning.maximum_curve_error_ratio
    if server.keep_reason is not None:
        low, high, reason = size, size, server.keep_reason
    elif server.curve_error_ratio > most_error:
        low = high = min(max(size, low), high)
        reason = (
            f"its curve's expected error of {server.curve_error_ratio:.3g} "
            f"is above {most_error:.3g}"
        )
    else:
        return SizeRange(low, high)
    if not size:
        raise InfeasibleError(
            f"{server.name} has no maxmemory and is to be kept as it is: {reason}"
        )
    return SizeRange(low, high, reason)


def _range_now(server: ServerObservation, observation: Observation) -> SizeRange:
    lasting = _lasting_range(server, observation)
    size, planning = server.maxmemory_bytes, observation.planning
    if lasting.kept_because or not size or server.changed_at_seconds is None:
        return lasting
    ago = observation.made_at_seconds - server.changed_at_seconds
    if ago >= planning.dwell_seconds:
        return lasting
    within = min(max(size, lasting.low_bytes), lasting.high_bytes)
    return SizeRange(
        within,
        within,
        f"it was changed {ago:.0f} s ago, and a change holds for {planning.dwell_seconds:.0f} s",
    )


def _step_range(
    server: ServerObservation, found: SizeRange, observation: Observation, excess_bytes: int
) -> SizeRange:
    """The part of a range that one cycle may reach; ``kept_because`` says what cut it."""
    size, most_ratio = server.maxmemory_bytes, observation.planning.max_step_ratio
    if not size or found.kept_because:
        return found
    low, high, because = found.low_bytes, found.high_bytes, None
    within = min(max(size, low), high)
    if most_ratio is not None:
        step = max(int(size * most_ratio), observation.unit_bytes)
        low, high = max(low, size - step), min(high, size + step)
        because = f"max_step_ratio {most_ratio:.3g} limits a cycle's step of"
    if is_quiet(server, observation):
        step = max(int(size * QUIET_STEP_RATIO), observation.unit_bytes) + excess_bytes
        if size - step > low:
            low = size - step
            because = "a server loses a tenth of its size at most: hardly any reads of"
    return SizeRange(min(low, within), max(high, within), because)
