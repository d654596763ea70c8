"""Whether moving to the split that was found is worth it: hysteresis, and what must be."""

from __future__ import annotations

from typing import NamedTuple

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import gain_words, reason_words
from solver_lambda.planning.bounds import Bound, bounds_of
from solver_lambda.planning.cost_of_moving import moving_seconds
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.explanation import size_in_force
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.size_ranges import (
    attainable_minima,
    changed_lately_seconds,
    is_little_known,
    listed,
    may_not_shrink,
    size_ranges,
)
from solver_lambda.planning.split_search import FoundSplit, Sizes
from solver_lambda.planning.step_limits import along_the_way, cycle_ranges
from solver_lambda.solvers.spare_units import in_proportion


def bare_need(observation: Observation) -> dict[str, int]:
    """Return the sizes in bytes, by name, that are nearest to those in force and keep the rules.

    Who is out of its bounds comes to the nearest one. What the budget lacks for that is given in
    proportion to what each has above its least size. Where that is too much for somebody, the least
    that a cycle may lead to counts instead.

    Raises:
        InfeasibleError: as ``cycle_ranges``.
    """
    ranges = cycle_ranges(observation)
    sizes = {
        name: ranges[name].nearest_bytes(size) for name, size in observation.in_force_bytes.items()
    }
    lacking = max(0, sum(sizes.values()) - observation.budget_bytes)
    free = size_ranges(observation)
    most = [size - ranges[name].low_bytes for name, size in sizes.items()]
    given = in_proportion([size - free[name].low_bytes for name, size in sizes.items()], lacking)
    if any(part > limit for part, limit in zip(given, most, strict=True)):
        given = in_proportion(most, lacking)
    return {name: size - part for (name, size), part in zip(sizes.items(), given, strict=True)}


# A server that makes so much of the mean access time outweighs all others.
OUTWEIGHING_RATIO = 0.99


class Gain(NamedTuple):
    """Holds weighted mean access times in seconds, before and after a move, and the cost of it.

    Attributes:
        concerned_before: ``before``; of one server that makes nearly all of it, and whose own mean
            the move changes by less than ``minimum_gain_ratio``, without its part.
        concerned_seconds: by which that falls, with the cost counted.
    """

    before: float
    after: float
    moving: float
    concerned_before: float
    concerned_seconds: float

    @property
    def seconds(self) -> float:
        """Return by how much the mean falls, with the cost counted."""
        return self.before - self.after - self.moving

    @property
    def ratio(self) -> float:
        """Return the gain's share of the mean before, with the cost counted."""
        return self.seconds / self.before if self.before > 0 else 0.0

    def is_worth(self, observation: Observation) -> bool:
        """Whether it is beyond chance, and enough to those whom it concerns: one server with very
        many reads, true or not, makes no gain of all others small."""
        least = observation.planning.minimum_gain_ratio * self.concerned_before
        least += observation.chance_ratio * self.before
        return self.seconds > 0 and 0 < self.concerned_seconds >= least


class Decision(NamedTuple):
    """Holds ``apply`` or ``keep``, why, and the sizes then."""

    word: str
    reason: str
    sizes: Sizes


def decide(observation: Observation, found: FoundSplit) -> Decision:
    """Decide with hysteresis: nothing moves unless it must, or the gain is worth it.

    A step that a rule shortens gains little, however much the whole way gains. So it is taken if
    it gains anything, or next to nothing is lost by it, and the whole way gains enough.
    """
    limit = f"; {found.limit}" if found.limit else ""
    in_force: Sizes = observation.in_force_bytes
    if found.wanted == in_force or (observation.goes_back and _is_there(found.wanted, observation)):
        return Decision("keep", _best_found(found, observation), in_force)
    if found.sizes != in_force:
        if must := must_move(observation):
            only_bounds = must.startswith("bounds:")
            sizes = _with_what_is_worth_it(found, observation) if only_bounds else found.sizes
            return Decision("apply", must, sizes)
        if words := _nearer_to_bounds(found, observation, in_force):
            return Decision("apply", words, found.sizes)
    if not any(shares(observation.servers).values()):
        return Decision("keep", _NO_DEMAND, in_force)
    least = observation.planning.minimum_gain_ratio + observation.chance_ratio
    gain, way = gain_of(observation, found.sizes), gain_of(observation, found.wanted)
    words = gain_words(gain.before, gain.after + gain.moving)
    if gain.is_worth(observation):
        return Decision("apply", f"gain: {words}{limit}", found.sizes)
    the_way = f"a better split would gain {max(0.0, way.ratio):.2%}"
    if not way.is_worth(observation):
        start = f"; it takes {least:.2%} to move" if least else ""
        if chance := observation.chance_ratio:
            rest = f" + {least - chance:.2%} minimum gain" if least > chance else ""
            start += f" ({chance:.2%} that may be chance{rest})"
        return Decision("keep", f"small_gain: {the_way}{start}{limit}", in_force)
    if gain.ratio > 0:
        return Decision(
            "apply", f"step: {words}, of {way.ratio:.2%} for the whole way{limit}", found.sizes
        )
    assert found.step is not None, "what gains enough at once was applied above"
    part = along_the_way(found.wanted, observation, found.step.ranges, way.seconds)
    if part is not None:
        words = f"a step that gains nothing yet, towards a split that would gain {way.ratio:.2%}"
        return Decision("apply", f"way: {words}{limit}", part)
    return Decision(
        "keep",
        f"step_limit: {the_way}, but a step towards it gains nothing and costs much{limit}",
        in_force,
    )


def _with_what_is_worth_it(found: FoundSplit, observation: Observation) -> Sizes:
    """Return what bounds of memory need, or the split that was found. The split is judged by what
    it gains beyond the need, and what was changed lately gives nothing else.

    Otherwise a bound that moved by a little would make the whole split anew, by chance.
    """
    need = bare_need(observation)
    if any(
        found.sizes[server.name] != need[server.name]
        for server in observation.servers
        if changed_lately_seconds(server, observation) is not None
    ):
        return need
    is_worth = gain_of(observation, found.sizes, instead_of=need).is_worth(observation)
    return found.sizes if is_worth or _nearer_to_bounds(found, observation, need) else need


def _is_there(sizes: Sizes, observation: Observation) -> bool:
    """Whether no server is a unit away. Sizes that were fitted into a budget are off by some bytes,
    and to go back by these would be a plan for nothing."""
    return all(
        abs(sizes[server.name] - server.maxmemory_bytes) < observation.unit_bytes
        for server in observation.servers
    )


def _best_found(found: FoundSplit, observation: Observation) -> str:
    """Say why to stay where nothing better was found."""
    if observation.goes_back:
        return "back: no sizes nearer to those from before there were plans may be had now"
    gap_ratio = found.solution.gap_ratio
    if gap_ratio <= observation.planning.epsilon_ratio:
        # Nothing can be learnt of a server without reads.
        share = shares(observation.servers)
        if not any(share.values()):
            return _NO_DEMAND
        is_learning = any(
            share[server.name] and is_little_known(server, observation)
            for server in observation.servers
        )
        words = (
            "learning: nothing better is known so far"
            if is_learning
            else "optimal: the sizes in force are the best"
        )
        return f"{words}{_held_back(observation)}"
    gap = f"{gap_ratio:.2%}" if gap_ratio >= 1e-4 else "0.01%"
    return f"best_found: nothing better was found; the best may be up to {gap} better"


_NO_DEMAND = "no_demand: no server has both reads and a weight"
# Codes of reasons to keep a size that are over when more reads have come.
_LEARNING = ("no_samples", "warming_up", "few_samples")


def _held_back(observation: Observation) -> str:
    """Say who may not shrink, and why; empty if everybody may."""
    held = [s for s in observation.servers if may_not_shrink(s, observation)]
    unknown = [s.name for s in held if (s.keep_reason or _LEARNING[0]).startswith(_LEARNING)]
    kept = [
        f"{server.name} (" + reason_words(server.keep_reason).partition(";")[0] + ")"
        for server in held
        if server.keep_reason is not None and server.name not in unknown
    ]
    if len(unknown) == len(observation.servers) > 2:
        return ": all servers are still being learnt, and none may shrink until that is done"
    who = listed(unknown)
    words = [f"{who} (too little is known of the reads so far)"] if unknown else []
    words += [listed(kept)] if kept else []
    return f" that the rules allow: {', '.join(words)} may not shrink now" if words else ""


def must_move(observation: Observation) -> str | None:
    """Say why the sizes in force cannot stay, or ``None``."""
    if observation.goes_back:
        return "back: to the sizes from before there were plans, which would have cost less since"
    for server in observation.servers:
        if not server.maxmemory_bytes:
            return f"no_limit: {server.name} has no maxmemory"
    total = sum(server.maxmemory_bytes for server in observation.servers)
    if total > observation.budget_bytes:
        return f"over_budget: the sizes in force sum to {format_size(total)}"
    minima = attainable_minima(observation)
    for server in observation.servers:
        if server.keep_reason is not None:
            continue
        if server.maxmemory_bytes < minima[server.name]:
            least = format_size(server.minimum_bytes)
            return f"bounds: {server.name} is below its minimum of {least}"
        if server.maximum_bytes is not None and server.maxmemory_bytes > server.maximum_bytes:
            most = format_size(server.maximum_bytes)
            return f"bounds: {server.name} is above its maximum of {most}"
    return None


def _nearer_to_bounds(found: FoundSplit, observation: Observation, instead_of: Sizes) -> str | None:
    """Say which server the split brings nearer to a bound than other sizes would, for people."""
    for server in observation.servers:
        if bound := _nearer_to_bound(server, found, observation, instead_of):
            return f"{bound.code}: {server.name} comes nearer to its bound"
    return None


def _nearer_to_bound(
    server: ServerObservation, found: FoundSplit, observation: Observation, instead_of: Sizes
) -> Bound | None:
    """Return the bound to which its memory brings a server nearer, in the end by enough, if any."""
    if server.name not in found.reserved.sizes_bytes:
        return None
    least = observation.planning.minimum_gain_ratio
    first = instead_of[server.name] or size_in_force(server)
    sizes = [first, found.sizes[server.name], found.wanted[server.name]]
    for bound in bounds_of(server):
        before, after, in_the_end = bound.amounts(sizes).tolist()
        if (server.name, bound.code) in found.reserved.unmet:
            continue
        if before > bound.most and after < before and in_the_end < before * (1 - least):
            return bound
    return None


def gain_of(observation: Observation, sizes: Sizes, *, instead_of: Sizes | None = None) -> Gain:
    """Return what ``sizes`` gain over other ones that there would be: by default those in force."""
    instead_of = instead_of or observation.in_force_bytes
    share = shares(observation.servers)
    horizon_seconds = observation.planning.horizon_seconds
    parts = []
    for server in observation.servers:
        eat = EffectiveAccessTime.of(server)
        part, size = share[server.name], sizes[server.name] or size_in_force(server)
        first = instead_of[server.name] or size_in_force(server)
        moving = moving_seconds(server, [first, size], horizon_seconds).tolist()
        times = float(eat.seconds(first)), float(eat.seconds(size)), moving[1] - moving[0]
        parts.append([part * seconds for seconds in times])
    before, after, moving = (sum(column) for column in zip(*parts, strict=True))
    concerned_before, concerned_seconds = before, before - after - moving
    for own_before, own_after, own_moving in parts:
        own_seconds = own_before - own_after - own_moving
        is_small = abs(own_seconds) < observation.planning.minimum_gain_ratio * own_before
        if is_small and own_before > OUTWEIGHING_RATIO * before:
            concerned_before, concerned_seconds = (
                before - own_before,
                concerned_seconds - own_seconds,
            )
    return Gain(before, after, moving, concerned_before, concerned_seconds)
