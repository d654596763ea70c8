"""A plan's figures, by what this sidecar itself knows: whoever planned may write any."""

from __future__ import annotations

from dataclasses import replace

from sidecar.plans.plan_check import PlanRefusedError
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.decision import gain_of
from solver_lambda.planning.explanation import server_figures
from solver_lambda.planning.problem_grid import shares


def with_own_figures(plan: AdaptationPlan, observation: Observation) -> AdaptationPlan:
    """The plan with hit ratios and access times by the curves of the observation that it answers.

    How far it is from the best sizes, and what other budgets would bring, stays its planner's word.

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
        mean_access_time_before_seconds=gain.before,
        mean_access_time_seconds=gain.after,
        servers=tuple(
            replace(
                server,
                maxmemory_before_bytes=seen[server.name].maxmemory_bytes,
                **server_figures(seen[server.name], server.maxmemory_bytes, share[server.name]),
            )
            for server in plan.servers
        ),
    )
