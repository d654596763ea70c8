"""What a plan would do, by what this sidecar itself knows: whoever planned, and whatever it says.

A planner gets the rules with the observation, and ours keeps them. But a plan may come from anybody
who can write where plans lie, so the rules are kept here, too, by our own copy of the observation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from sidecar.plans.plan_check import PlanRefusedError
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import time_words
from solver_lambda.planning.bounds import bounds_of
from solver_lambda.planning.decision import gain_of, must_move
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.explanation import size_in_force
from solver_lambda.planning.planner import make_plan
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.size_ranges import InfeasibleError, SizeRange
from solver_lambda.planning.step_limits import cycle_ranges

# An observation's document rounds the curves; no plan is refused for that.
_ROUNDING_RATIO = 1e-6


def check_ranges(sizes_bytes: Mapping[str, int], observation: Observation) -> None:
    """Each size is one that a cycle may lead to: by step, dwell, reasons to keep, curve's error.

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
    """The mean access time does not grow by more than may be error, unless it would also by the
    sizes that we should plan ourselves: for bounds, a budget, or to go back.

    Raises:
        PlanRefusedError: ``harmful``.
    """
    gain = gain_of(observation, sizes_bytes)
    most = gain.before * (1 + _ROUNDING_RATIO) + _error_seconds(sizes_bytes, observation)
    if gain.after <= most:
        return
    own = make_plan(observation, now_seconds=time.time())
    own_bytes = {server.name: server.maxmemory_bytes for server in own.servers}
    least = observation.planning.minimum_gain_ratio + _ROUNDING_RATIO
    if gain.after <= gain_of(observation, own_bytes).after * (1 + least):
        return
    raise PlanRefusedError(
        "harmful",
        f"by the curves known here the mean access time would be {time_words(gain.after)} instead "
        f"of {time_words(gain.before)}",
    )


def reasons_for_a_loss(sizes_bytes: Mapping[str, int], observation: Observation) -> set[str]:
    """Codes of what is worth one, by what we see ourselves: the sizes in force cannot stay, or a
    server comes nearer to its bound."""
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
    """And why there are none, in which case all sizes stay."""
    try:
        return cycle_ranges(observation), ""
    except InfeasibleError as error:
        in_force = observation.in_force_bytes
        return {name: SizeRange(size, size) for name, size in in_force.items()}, f" ({error})"


def _error_seconds(sizes_bytes: Mapping[str, int], observation: Observation) -> float:
    """Of the difference in the mean access time, by the stated errors of the curves."""
    share = shares(observation.servers)
    errors = []
    for server in observation.servers:
        if sizes_bytes[server.name] != server.maxmemory_bytes:
            eat = EffectiveAccessTime.of(server)
            penalty_seconds = eat.backend_latency_seconds - eat.cache_latency_seconds
            errors.append(share[server.name] * penalty_seconds * server.curve_error_ratio)
    return math.hypot(*errors)
