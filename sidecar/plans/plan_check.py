"""Whether a plan may be carried out: the last look before anybody's memory changes."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.plan import AdaptationPlan

# Clocks of the sidecar and of the function may differ by so much.
CLOCK_TOLERANCE_SECONDS = 300.0

# (document, its name for messages): whether it was believed; never raises for a bad one.
TakePlan = Callable[[bytes, str], bool]


class PlanRefusedError(Exception):
    """The plan must not be carried out; ``code`` is counted, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def check_plan(
    plan: AdaptationPlan,
    state: SidecarState,
    node: str,
    *,
    now_seconds: float,
    maximum_age_seconds: float,
) -> None:
    """Check a well-formed plan against what was asked.

    Raises:
        PlanRefusedError: with the first rule that it breaks.
    """
    if plan.node != node:
        raise PlanRefusedError("foreign_node", f"the plan is for {plan.node!r}, this is {node!r}")
    if plan.cycle <= state.applied_cycle:
        raise PlanRefusedError(
            "old_cycle", f"cycle {plan.cycle} is not newer than {state.applied_cycle}"
        )
    asked = state.asked.get(plan.cycle)
    if asked is None:
        raise PlanRefusedError("unasked_cycle", f"nobody asked for cycle {plan.cycle}")
    age_seconds = now_seconds - asked.asked_at_seconds
    if age_seconds > maximum_age_seconds:
        raise PlanRefusedError("expired", f"its observation is {age_seconds:.0f} s old")
    if plan.made_at_seconds > now_seconds + CLOCK_TOLERANCE_SECONDS:
        raise PlanRefusedError("from_the_future", f"made at {plan.made_at_seconds:.0f}")
    planned = {server.name: server.maxmemory_bytes for server in plan.servers}
    if planned.keys() != asked.bounds_bytes.keys():
        names = sorted(planned.keys() ^ asked.bounds_bytes.keys())
        raise PlanRefusedError("wrong_servers", f"asked and planned differ in {', '.join(names)}")
    if plan.budget_bytes != asked.budget_bytes:
        raise PlanRefusedError(
            "wrong_budget", f"for {plan.budget_bytes} bytes, asked for {asked.budget_bytes}"
        )
    if plan.decision == "keep":
        return
    for name, (low, high) in asked.bounds_bytes.items():
        if planned[name] < low:
            raise PlanRefusedError("below_minimum", f"{name}: {planned[name]} bytes, least {low}")
        if high is not None and planned[name] > high:
            raise PlanRefusedError("above_maximum", f"{name}: {planned[name]} bytes, most {high}")
    total = sum(planned.values())
    if total > asked.budget_bytes:
        raise PlanRefusedError("over_budget", f"{total} bytes, budget {asked.budget_bytes}")
