"""Makes an adaptation plan from an observation: solve, decide, explain."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.budget_curve import what_if
from solver_lambda.planning.decision import Decision, Gain, decide, gain_of
from solver_lambda.planning.explanation import PlanContext, explain_server
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.size_ranges import (
    InfeasibleError,
    SizeRange,
    attainable_minima,
    size_ranges,
)
from solver_lambda.planning.split_search import FoundSplit, Sizes, find_split


def make_plan(observation: Observation, *, now_seconds: float) -> AdaptationPlan:
    """Return the plan for an observation.

    The same observation gives the same plan, unless the solver runs out of its time limit:
    ``now_seconds``, Unix time, only dates it, and the rules about time count from the moment of
    the observation.

    A node on which no split keeps the rules gets a plan that keeps all sizes and says why.
    """
    started = time.perf_counter()
    deadline = started + observation.planning.time_limit_seconds
    in_force: Sizes = observation.in_force_bytes
    ranges: dict[str, SizeRange] = {}
    found = None
    try:
        ranges = size_ranges(observation)
        found = find_split(observation, ranges, deadline)
        decision = decide(observation, found)
    except InfeasibleError as error:
        decision = Decision("keep", f"infeasible: {error}", in_force)
    sizes = decision.sizes
    gain = gain_of(observation, sizes)
    held = {name: item.kept_because for name, item in ranges.items() if item.kept_because}
    circumstances = _circumstances(observation, held, found, decision, gain)
    share = shares(observation.servers)
    return AdaptationPlan(
        node=observation.node,
        cycle=observation.cycle,
        observation_made_at_seconds=observation.made_at_seconds,
        made_at_seconds=now_seconds,
        budget_bytes=observation.budget_bytes,
        method=found.solution.method if found else "none",
        decision=decision.word,
        reason=decision.reason,
        optimality_gap=found.solution.gap_ratio if found else 1.0,
        mean_access_time_before_seconds=gain.before,
        mean_access_time_seconds=gain.after,
        servers=tuple(
            explain_server(server, sizes[server.name], share[server.name], circumstances)
            for server in observation.servers
        ),
        what_if=what_if(observation, sizes, deadline_seconds=deadline),
        run_seconds=time.perf_counter() - started,
        run_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        window_seconds=observation.window_seconds if circumstances.tells_demand else None,
    )


def _circumstances(
    observation: Observation,
    held: Mapping[str, str],
    found: FoundSplit | None,
    decision: Decision,
    gain: Gain,
) -> PlanContext:
    return PlanContext(
        decision=decision.reason,
        keeps=decision.word == "keep",
        mean_falls=gain.after < gain.before,
        held=held,
        unmet_bounds=found.reserved.unmet if found else {},
        limit=found.limit if found else None,
        minima_bytes=attainable_minima(observation),
        unit_bytes=observation.unit_bytes,
        tells_demand=any(s.installed_bytes is not None for s in observation.servers),
    )
