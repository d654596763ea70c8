"""The planner in ``docs/develop/documents.md`` plans for a real sidecar and real servers."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from sidecar.observing.observer import pending_request
from sidecar.plans.plan_check import PlanRefusedError, check_plan
from sidecar.plans.plan_harm import check_harm, check_ranges
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from tests.sidecar.played_function import Function, by_queue
from tests.solver_lambda.odd_observations import odd_observations
from workloads.local_node import BUDGET_BYTES, LocalNode, wait_until

PAGE = Path(__file__).parents[3] / "docs/develop/documents.md"
(PLANNER,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def plan_equally(document: bytes) -> bytes:
    """Plan by the page's program, with nothing but the standard library."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", PLANNER], input=document, capture_output=True, check=True
    ).stdout


def test_its_plan_is_checked_and_carried_out(
    cloud: Any, function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    function.plan = plan_equally
    equal = {"modest": BUDGET_BYTES // 2, "hungry": BUDGET_BYTES // 2}
    with LocalNode("n1", by_queue(cloud)) as node:
        node.servers["hungry"].client.config_set("maxmemory", BUDGET_BYTES // 4)
        with caplog.at_level("INFO"), node.load(), node.sidecar() as sidecar:
            wait_until(
                lambda: function.answer() or node.sizes_bytes() == equal, sidecar.metrics.snapshot
            )
        plan = sidecar.last_plan
        assert sidecar.metrics.value("plans_refused") == 0
    assert plan is not None
    assert (plan.method, plan.decision, plan.optimality_gap) == ("equal", "apply", 1.0)
    # It predicts nothing: the figures are the sidecar's own.
    assert plan.predicted_gain_ratio is not None
    assert None not in [server.hit_ratio for server in plan.servers]
    by = f"plan: cycle {plan.cycle}, apply, by equal with a gap of 100.00 %, "
    assert f"{by}{plan_key(plan.node, plan.cycle)} from the cloud, " in caplog.text


@given(observation=odd_observations())
@settings(max_examples=50, deadline=None)
def test_its_plan_passes_the_sidecars_check_or_would_do_harm(observation: Observation) -> None:
    # What has no maxmemory is in no sidecar's observation.
    assume(all(server.maxmemory_bytes for server in observation.servers))
    plan = AdaptationPlan.loads(plan_equally(observation.dumps()), "p.json")
    state = SidecarState()
    state.ask(pending_request(observation))
    now_seconds = observation.made_at_seconds
    late = plan.made_at_seconds  # the program takes the clock's time
    check_plan(plan, state, "n1", now_seconds=max(now_seconds, late), maximum_age_seconds=1e12)
    # What it pays no heed to may have it refused, and breaks nothing else.
    if plan.decision == "apply":
        sizes = {s.name: s.maxmemory_bytes for s in plan.servers}
        with suppress(PlanRefusedError):
            check_ranges(sizes, observation)
            check_harm(sizes, observation)
    kept = {s.name: s.maxmemory_bytes for s in observation.servers if s.keep_reason}
    sizes = {s.name: s.maxmemory_bytes for s in plan.servers}
    assert kept.items() <= sizes.items()
