"""Judges what a plan would do, by what this sidecar itself knows: whoever planned, and whatever it
says.

A planner gets the rules with the observation, and ours keeps them. But a plan may come from anybody
who can write where plans lie. So the rules are kept here, too, by our own copy of the observation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from sidecar.plans.plan_check import PlanRefusedError
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import time_words
from solver_lambda.planning.bounds import bounds_of
from solver_lambda.planning.decision import Gain, gain_of, must_move
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.explanation import size_in_force
from solver_lambda.planning.planner import make_plan
from solver_lambda.planning.size_ranges import InfeasibleError, SizeRange
from solver_lambda.planning.step_limits import cycle_ranges

# An observation's document rounds the curves; no plan is refused for that.
_ROUNDING_RATIO = 1e-6


def check_keeping(observation: Observation) -> None:
    """Check that all sizes may stay: a planner that keeps them for good would take their bounds
    from the operator.

    Raises:
        PlanRefusedError: ``keeps_what_must_move``.
    """
    must = must_move(observation)
    if must is None or make_plan(observation, now_seconds=time.time()).decision == "keep":
        return
    words = must.partition(": ")[2]
    raise PlanRefusedError("keeps_what_must_move", f"it keeps all sizes, though {words}")


def check_ranges(sizes_bytes: Mapping[str, int], observation: Observation) -> None:
    """Check that each size is one that a cycle may lead to: by step, dwell, reasons to keep,
    curve's error.

    Raises:
        PlanRefusedError: ``out_of_range``, with the first that is not.
    """
    ranges, infeasible = _ranges(observation)
    for server in observation.servers:
        size, found = sizes_bytes[server.name], ranges[server.name]
        if found.low_bytes <= size <= found.high_bytes:
            continue
        because = f" ({found.kept_because})" if found.kept_because else infeasible
        raise PlanRefusedError(
            "out_of_range",
            f"{server.name}: {format_size(size)}, and by what is known here it may have "
            f"{format_size(found.low_bytes)} to {format_size(found.high_bytes)}{because}",
        )


def check_harm(sizes_bytes: Mapping[str, int], observation: Observation) -> None:
    """Check that what servers lose is paid for by what others gain, and memory is taken for
    somebody. A plan passes where our own would cost as much, or take as much: for bounds, a budget,
    or to go back.

    No error of a curve excuses a loss: it would do so in each cycle, and a curve that is hardly
    used would lend its own to the one who loses.

    Raises:
        PlanRefusedError: ``harmful`` or ``wasteful``.
    """
    gain, freed_bytes = gain_of(observation, sizes_bytes), _freed_bytes(sizes_bytes, observation)
    is_paid = _is_paid(sizes_bytes, observation, gain)
    # A planner may round each size down to a unit.
    rounded_bytes = observation.unit_bytes * len(observation.servers)
    if is_paid and freed_bytes <= rounded_bytes:
        return
    own = make_plan(observation, now_seconds=time.time())
    own_bytes = {server.name: server.maxmemory_bytes for server in own.servers}
    if not is_paid:
        own_gain = gain_of(observation, own_bytes)
        most = own_gain.before
        if own_gain.after > most:
            # Sizes have to move: another solver may find others that are about as good.
            most = own_gain.after * (1 + observation.planning.minimum_gain_ratio)
        if own.decision == "keep" or gain.after > most * (1 + _ROUNDING_RATIO):
            words = (
                f"by the curves known here the mean access time would be {time_words(gain.after)} "
                f"instead of {time_words(gain.before)}"
            )
            if chance := observation.chance_ratio:
                words += f", and {chance:.2%} less may be chance"
            raise PlanRefusedError("harmful", words)
    if freed_bytes > max(0.0, _freed_bytes(own_bytes, observation)) + rounded_bytes:
        raise PlanRefusedError(
            "wasteful", f"takes {format_size(int(freed_bytes))} that nobody gets"
        )


def reasons_for_a_loss(sizes_bytes: Mapping[str, int], observation: Observation) -> set[str]:
    """Return codes of what is worth one, by what we see ourselves: the sizes in force cannot stay,
    or a server comes nearer to its bound."""
    must = must_move(observation)
    codes = {must.partition(":")[0]} if must else set()
    for server in observation.servers:
        for bound in bounds_of(server):
            sizes = [size_in_force(server), sizes_bytes[server.name]]
            before, after = bound.amounts(sizes).tolist()
            if before > bound.most and after < before:
                codes.add(bound.code)
    return codes


def _ranges(observation: Observation) -> tuple[dict[str, SizeRange], str]:
    """Return the ranges, and why there are none, in which case all sizes stay."""
    try:
        return cycle_ranges(observation), ""
    except InfeasibleError as error:
        in_force = observation.in_force_bytes
        return {name: SizeRange(size, size) for name, size in in_force.items()}, f" ({error})"


def _is_paid(sizes_bytes: Mapping[str, int], observation: Observation, gain: Gain) -> bool:
    """Whether no server loses, or the others gain more than that and what may be chance."""
    if gain.after <= gain.before * (1 - observation.chance_ratio + _ROUNDING_RATIO):
        return True
    for server in observation.servers:
        eat = EffectiveAccessTime.of(server)
        before, after = eat.seconds([size_in_force(server), sizes_bytes[server.name]]).tolist()
        if (
            server.weight
            and server.request_rate_per_second
            and after > before * (1 + _ROUNDING_RATIO)
        ):
            return False
    return True


def _freed_bytes(sizes_bytes: Mapping[str, int], observation: Observation) -> float:
    """Return by how much the sum of sizes falls, beside what the budget forces."""
    in_force = sum(size_in_force(server) for server in observation.servers)
    return min(in_force, observation.budget_bytes) - sum(sizes_bytes.values())
