"""Gets from what was seen to a recommendation, by the observation and the planner of every node."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.config.node import SidecarConfig
from sidecar.curves.decaying_counts import CYCLE, HalfLife
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.chance_of_gain import chance_ratio
from sidecar.half_lives.virtual_plans import PlannedServer, VirtualPlanner
from sidecar.look.server_look import Seen
from sidecar.observing.observer import observe
from sidecar.observing.server_snapshot import ServerSnapshot
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.effective_access_time import AccessCost
from solver_lambda.planning.planner import make_plan

# Standard errors by which a gain must exceed zero.
_ERRORS = 2.0
_TIME_LIMIT_SECONDS = 1.0
# Minutes without reads do not say that nobody needs it.
_UNKNOWN = "few_samples: too little is known of it"


@dataclass(frozen=True)
class LookPlan:
    """Holds what is recommended.

    Attributes:
        plan: of the planner.
        observation: that it answers.
        best_ratio: by which the best division would shorten the mean access time, whether or not
            that is worth a move.
    """

    plan: AdaptationPlan
    observation: Observation
    best_ratio: float


def look_plan(
    config: SidecarConfig,
    seen: Sequence[Seen],
    counts: Mapping[str, ReadCounts],
    budget_bytes: int,
) -> LookPlan:
    """Plan for the servers that were looked at. ``counts`` tells what was read, by server."""
    servers = {server.name: server for server in config.servers}
    seen = [replace(one, config=servers[one.config.name]) for one in seen]
    config = replace(config, servers=tuple(one.config for one in seen))
    observation = observe(
        config,
        cycle=1,
        made_at_seconds=time.time(),
        seen=[_snapshot(one) for one in seen],
        reserved_bytes=0,
        budget_bytes=budget_bytes,
    )
    limit = min(_TIME_LIMIT_SECONDS, observation.planning.time_limit_seconds)
    planning = replace(observation.planning, time_limit_seconds=limit)
    observation = replace(observation, cycle_seconds=observation.window_seconds, planning=planning)
    observation = replace(observation, chance_ratio=_chance(observation, counts))
    plan = make_plan(observation, now_seconds=observation.made_at_seconds)
    return LookPlan(plan, observation, _best_ratio(plan))


def _snapshot(seen: Seen) -> ServerSnapshot:
    """One without a limit is taken for as large as what it uses."""
    window = seen.window
    return ServerSnapshot(
        config=seen.config,
        reading=replace(seen.reading, maxmemory_bytes=seen.reading.size_bytes, is_looked_at=True),
        estimate=seen.estimate,
        settings=None,
        changed_at_seconds=None,
        kept=None if seen.is_known else _UNKNOWN,
        unevictable_bytes=window.unevictable_bytes,
        lasting_bytes=window.lasting_bytes,
        least_used_bytes=window.least_used_bytes,
        has_no_limit=not seen.reading.maxmemory_bytes,
    )


def _chance(observation: Observation, counts: Mapping[str, ReadCounts]) -> float:
    free = [server for server in observation.servers if server.keep_reason is None]
    kept_bytes = sum(s.maxmemory_bytes for s in observation.servers if s not in free)
    left_bytes = observation.budget_bytes - kept_bytes
    if len(free) < 2 or left_bytes <= sum(max(1, server.minimum_bytes) for server in free):
        return 0.0
    planned = []
    for server in free:
        cost = AccessCost.by(server.cache_latency_seconds, server.backend_latency_seconds)
        planned.append(
            PlannedServer(
                server.name,
                server.weight * cost.hit_seconds,
                server.weight * cost.penalty_seconds,
                max(1, server.minimum_bytes),
                server.maximum_bytes,
            )
        )
    sizes = {server.name: server.maxmemory_bytes for server in free}
    of_free = {server.name: counts[server.name] for server in free}
    planner = VirtualPlanner(planned, left_bytes)
    return min(1.0, chance_ratio(planner, of_free, HalfLife(CYCLE, CYCLE), sizes, _ERRORS))


def _best_ratio(plan: AdaptationPlan) -> float:
    before = plan.mean_access_time_before_seconds or 0.0
    here = plan.own_budget
    return max(0.0, 1 - here.mean_access_time_seconds / before) if here and before else 0.0
