"""Plans behind good notifications: a bad one is refused, a good one is carried out once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from tests.sidecar.actuated_node import fill
from tests.sidecar.waiting_sidecar import MB, WaitingSidecar
from workloads.local_node import wait_until


def _sizes(plan: AdaptationPlan, *sizes_bytes: int) -> AdaptationPlan:
    servers = zip(plan.servers, sizes_bytes, strict=True)
    return replace(
        plan, servers=tuple(replace(server, maxmemory_bytes=size) for server, size in servers)
    )


# Name: (the plan that a good notification leads to, the reason that is counted).
BAD_PLANS: dict[str, tuple[Callable[[AdaptationPlan], AdaptationPlan | bytes], str]] = {
    "no JSON": (lambda plan: b"{", "malformed"),
    "oversized": (lambda plan: plan.dumps() + b" " * MAX_PLAN_BYTES, "malformed"),
    "unknown key": (lambda plan: plan.dumps().replace(b'"node"', b'"n0de"', 1), "malformed"),
    "more than the budget": (lambda plan: _sizes(plan, 13 * MB, 20 * MB), "malformed"),
    "foreign node": (lambda plan: replace(plan, node="n2"), "foreign_node"),
    "cycle that nobody asked": (lambda plan: replace(plan, cycle=plan.cycle - 1), "unasked_cycle"),
    "cycle of the future": (lambda plan: replace(plan, cycle=plan.cycle + 9), "unasked_cycle"),
    "below the minimum": (lambda plan: _sizes(plan, 1 * MB, 20 * MB), "below_minimum"),
    "above the maximum": (lambda plan: _sizes(plan, 6 * MB, 25 * MB), "above_maximum"),
    "a server missing": (lambda plan: replace(plan, servers=plan.servers[:1]), "wrong_servers"),
    "another server": (
        lambda plan: replace(plan, servers=(replace(plan.servers[0], name="x"), plan.servers[1])),
        "wrong_servers",
    ),
    "another budget": (lambda plan: replace(plan, budget_bytes=64 * MB), "wrong_budget"),
    "made tomorrow": (
        lambda plan: replace(plan, made_at_seconds=plan.made_at_seconds + 86400),
        "from_the_future",
    ),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_behind_a_good_notification_is_refused(
    waiting: WaitingSidecar, name: str
) -> None:
    make, reason = BAD_PLANS[name]
    waiting.put(make(waiting.plan))
    try:
        waiting.assert_refused(
            f"plans_refused[reason={reason}]",
            lambda: waiting.post(waiting.message()),
            range(200, 201),
        )
    finally:
        waiting.put(waiting.plan)


def test_the_good_notification_is_carried_out_and_not_twice(waiting: WaitingSidecar) -> None:
    assert waiting.post(waiting.message(Subject="Amazon S3 Notification")) == 200
    assert waiting.sidecar.cycles == 1
    sidecar = waiting.sidecar

    def sizes() -> list[int]:
        fill(waiting.servers[1], 20)
        found = [server.client.config_get("maxmemory")["maxmemory"] for server in waiting.servers]
        return [int(size) for size in found]

    wait_until(lambda: sizes() == [12 * MB, 20 * MB], sidecar.metrics.snapshot, pause_seconds=0.3)
    assert waiting.post(waiting.message()) == 200
    assert waiting.sidecar.cycles == 1
    assert waiting.refused()["plans_refused[reason=old_cycle]"] == 1
    refused = sidecar.status()["plans_refused"]
    assert refused["last_words"].startswith("old_cycle: ")
    assert refused["count"] == sidecar.metrics.value("plans_refused")
