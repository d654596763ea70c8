"""Works out a plan's figures, by what this sidecar itself knows: whoever planned may write any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sidecar.plans.plan_check import PlanRefusedError
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan
from solver_lambda.planning.decision import gain_of
from solver_lambda.planning.explanation import demand_of, server_figures
from solver_lambda.planning.problem_grid import shares


def with_own_figures(plan: AdaptationPlan, observation: Observation) -> AdaptationPlan:
    """Return the plan with all figures that its observation tells: its time, hit ratios and access
    times by the curves, rates and weights.

    Reasons, how far it is from the best sizes, and what other budgets would bring, stay its
    planner's word.

    Raises:
        PlanRefusedError: ``out_of_range``: it keeps all sizes, and has another one.
    """
    seen = {server.name: server for server in observation.servers}
    sizes = {server.name: server.maxmemory_bytes for server in plan.servers}
    for name, size_bytes in sizes.items():
        if plan.decision == "keep" and size_bytes != seen[name].maxmemory_bytes:
            raise PlanRefusedError("out_of_range", f"it keeps all sizes, and has another of {name}")
    gain, share = gain_of(observation, sizes), shares(observation.servers)
    return replace(
        plan,
        observation_made_at_seconds=observation.made_at_seconds,
        window_seconds=plan.window_seconds and observation.window_seconds,
        mean_access_time_before_seconds=gain.before,
        mean_access_time_seconds=gain.after,
        servers=tuple(
            replace(
                server,
                maxmemory_before_bytes=seen[server.name].maxmemory_bytes,
                settings_version=server.settings_version and seen[server.name].settings_version,
                **server_figures(seen[server.name], server.maxmemory_bytes, share[server.name]),
                **_demand(server, seen[server.name]),
            )
            for server in plan.servers
        ),
    )


def _demand(server: ServerPlan, seen: ServerObservation) -> dict[str, Any]:
    """Return what a plan may tell of it, if this one does."""
    demand = demand_of(seen)
    return demand if server.weight is not None else dict.fromkeys(demand)
