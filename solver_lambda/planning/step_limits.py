"""Says how far towards a split one cycle may go: small steps, and smaller ones from quiet
servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.planning.cost_of_moving import moving_seconds
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.quiet_servers import has_few_reads, is_quiet
from solver_lambda.planning.size_ranges import SizeRange, least_bytes, listed, size_ranges
from solver_lambda.solvers.spare_units import in_proportion

# A quiet server loses at most this part of its size in one cycle, beside what the budget forces. So
# much at most gains one with few reads that takes memory for its latency bound. In a shorter
# window, as after an early plan, it is as much less: what is lost in a day has a bound.
QUIET_STEP_RATIO = 0.1
# If a step gains nothing, what it takes from a server may cost the node at most this part of the
# whole way's gain. That is in proportion to the server's part of all that is given on the way.
STEP_COST_RATIO = 0.1


class Step(NamedTuple):
    """Says how far sizes go towards a wanted split in one cycle.

    Attributes:
        ranges: by name.
        because: what shortens the way, for people.
    """

    ranges: dict[str, SizeRange]
    because: str


def cycle_ranges(observation: Observation) -> dict[str, SizeRange]:
    """Return the range of each server in any plan for this observation, whatever split it goes to.

    Raises:
        InfeasibleError: as ``size_ranges``.
    """
    ranges = size_ranges(observation)
    excess = _excess_bytes(observation, ranges)
    for most_ratio in dict.fromkeys((observation.planning.maximum_step_ratio, None)):
        steps = {}
        for server in observation.servers:
            found = ranges[server.name]
            step = _step_range(server, found, observation, excess, most_ratio, False)
            because = f"{step.kept_because} {server.name}" if step.kept_because else None
            steps[server.name] = step._replace(kept_because=found.kept_because or because)
        if least_bytes(steps) <= observation.budget_bytes:
            return steps
    return ranges


def step_towards(
    wanted_bytes: Mapping[str, int],
    observation: Observation,
    ranges: Mapping[str, SizeRange],
    bounded: Collection[str],
) -> Step | None:
    """Return what one cycle may do of the way to a split; ``None`` if it may go there at once.

    * ``maximum_step_ratio`` is the most that a server gains or loses, but it may move by one unit;
    * a quiet server loses ``QUIET_STEP_RATIO`` of its size at most. Beside that it loses at most
      what the sizes in force (or the bounds, where these ask for more) exceed the budget by;
    * one of ``bounded``, which take memory for their latency bounds, gains ``QUIET_STEP_RATIO`` of
      its size at most if it has few reads.

    A server goes towards its wanted size only. Where the budget does not allow that, it may go
    either way; where even so the least sizes exceed it, ``maximum_step_ratio`` is dropped.
    """
    excess = _excess_bytes(observation, ranges)
    for most_ratio in dict.fromkeys((observation.planning.maximum_step_ratio, None)):
        held_by: dict[str, list[str]] = {}
        steps: dict[str, SizeRange] = {}
        ways: dict[str, SizeRange] = {}
        for server in observation.servers:
            name, found, wanted = server.name, ranges[server.name], wanted_bytes[server.name]
            step = _step_range(server, found, observation, excess, most_ratio, name in bounded)
            if wanted < step.low_bytes or wanted > step.high_bytes:
                assert step.kept_because is not None, "it was in range before the step was cut"
                held_by.setdefault(step.kept_because, []).append(name)
            size = step.nearest_bytes(server.maxmemory_bytes)
            low, high = (
                max(step.low_bytes, min(size, wanted)),
                min(step.high_bytes, max(size, wanted)),
            )
            steps[name] = step._replace(kept_because=found.kept_because)
            ways[name] = SizeRange(low, high, found.kept_because)
        if not held_by:
            return None
        because = "; ".join(f"{why} {listed(names)}" for why, names in held_by.items())
        for limited in (ways, steps):
            if least_bytes(limited) <= observation.budget_bytes:
                return Step(limited, because)
    return None


def _excess_bytes(observation: Observation, ranges: Mapping[str, SizeRange]) -> int:
    """Return by how much the sizes in force, or the bounds where these ask for more, exceed the
    budget."""
    sizes = (ranges[s.name].nearest_bytes(s.maxmemory_bytes) for s in observation.servers)
    return max(0, sum(sizes) - observation.budget_bytes)


def along_the_way(
    wanted_bytes: Mapping[str, int],
    observation: Observation,
    ranges: Mapping[str, SizeRange],
    gain_seconds: float,
) -> dict[str, int] | None:
    """Return a step towards a split that gains only when it is reached, as where a curve has a
    cliff.

    Each server goes as far as ``ranges``, of a ``Step``, let it, in whole units. Memory comes from
    servers that lose next to nothing by it: see ``STEP_COST_RATIO``, of ``gain_seconds``, by which
    the whole way lowers the weighted mean access time. ``None`` if there are no such servers.
    """
    unit = observation.unit_bytes
    given_in_all = sum(
        max(0, server.maxmemory_bytes - wanted_bytes[server.name]) for server in observation.servers
    )
    share = shares(observation.servers)
    gives: dict[str, int] = {}
    takes: dict[str, int] = {}
    for server in observation.servers:
        size, found = server.maxmemory_bytes, ranges[server.name]
        if wanted_bytes[server.name] > size:
            takes[server.name] = max(0, found.high_bytes - size) // unit
        elif units := max(0, size - found.low_bytes) // unit:
            low = size - units * unit
            before, after = EffectiveAccessTime.of(server).seconds([size, low]).tolist()
            horizon = observation.planning.horizon_seconds
            loss = after - before + float(moving_seconds(server, low, horizon))
            most = STEP_COST_RATIO * gain_seconds * (size - low) / given_in_all
            if share[server.name] * loss <= most:
                gives[server.name] = units
    spare = observation.budget_bytes - sum(s.maxmemory_bytes for s in observation.servers)
    moved = min(sum(takes.values()), sum(gives.values()) + max(0, spare) // unit)
    if not moved:
        return None
    given, taken = (
        dict(zip(most, in_proportion(list(most.values()), units), strict=True))
        for most, units in ((gives, max(0, moved - max(0, spare) // unit)), (takes, moved))
    )
    return {
        server.name: server.maxmemory_bytes
        + unit * (taken.get(server.name, 0) - given.get(server.name, 0))
        for server in observation.servers
    }


def _step_range(
    server: ServerObservation,
    found: SizeRange,
    observation: Observation,
    excess_bytes: int,
    most_ratio: float | None,
    bounded: bool,
) -> SizeRange:
    """Return the part of a range that one cycle may reach; ``kept_because`` says what cut it."""
    size = server.maxmemory_bytes
    if not size or found.is_fixed:
        return found
    low, high, because = found.low_bytes, found.high_bytes, None
    within = found.nearest_bytes(size)
    if most_ratio is not None:
        step = max(int(size * most_ratio), observation.unit_bytes)
        low, high = max(low, size - step), min(high, size + step)
        because = f"maximum_step_ratio {most_ratio:.3g} limits a cycle's step of"
    quiet_step = max(int(size * QUIET_STEP_RATIO * observation.cycle_share), observation.unit_bytes)
    if is_quiet(server, observation):
        step = quiet_step + excess_bytes
        if size - step > low:
            low = size - step
            because = "a server loses a tenth of its size at most: hardly any reads of"
    elif bounded and has_few_reads(server, observation) and size + quiet_step < high:
        high = size + quiet_step
        because = "a server gains a tenth of its size at most for its bound: few reads of"
    return SizeRange(min(low, within), max(high, within), because)
