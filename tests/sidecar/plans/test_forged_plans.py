"""Plans that pass every formal check: judged by what the sidecar saw, not by what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sidecar.control.order import OrderRefusedError
from sidecar.delivery.message_signature import SignatureCheck
from sidecar.state.control_state import Wait
from sidecar.state.state_store import StateStore
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation
from tests.sidecar.plan_messages import FORGED, NEW, OLD, Receiving, observation, plan
from tests.sidecar.signed_cloud import SignedCloud
from workloads.quiet_log import quiet_log

NEEDED = MissRatioCurve(np.array([16.0 * (1 << 20)]), np.array([0.0]))


@pytest.fixture
def receiving(cloud: SignedCloud) -> Iterator[Receiving]:
    with quiet_log():
        yield Receiving(cloud, SignatureCheck(cloud.topic_arn, cloud.endpoint_url))


def needed(cycle: int) -> Observation:
    """All that the servers have is read."""
    seen = observation(cycle)
    return replace(seen, servers=tuple(replace(one, curve=NEEDED) for one in seen.servers))


def kept(cycle: int) -> Observation:
    seen = observation(cycle)
    reason = "stuck: it frees nothing"
    return replace(seen, servers=tuple(replace(one, keep_reason=reason) for one in seen.servers))


@pytest.mark.parametrize(
    ("see", "code"),
    [(needed, "harmful"), (kept, "out_of_range"), (lambda _: None, "forgotten")],
)
@pytest.mark.parametrize("reason", ["gain: much", "back: to before", "over_budget: they sum to"])
def test_what_would_do_harm_is_refused_and_told_until_a_plan_passes(
    receiving: Receiving, see: Callable[[int], Observation | None], code: str, reason: str
) -> None:
    application = receiving.application
    application._asked = see
    forged = replace(plan(OLD), reason=reason)
    assert not application.take(forged.dumps(), "forged")
    assert receiving.metrics.value("plans_refused", reason=code) == 1
    assert receiving.moves == []
    assert (application.problem is None) == (code == "forgotten")
    application._asked = observation
    assert application.take(plan(NEW).dumps(), "good")
    assert receiving.moves == [NEW]
    assert application.problem is None


def test_a_plan_that_only_says_that_it_must_waits_as_others_do(receiving: Receiving) -> None:
    application = receiving.application
    with receiving.store.update() as state:
        wait = Wait(time.time() + 600, "plan 1 did not keep its promise", 1)
        state.control = replace(state.control, wait=wait)
    forged = replace(plan(OLD), reason="bounds: a is below its minimum")
    assert application.take(forged.dumps(), "forged")
    assert receiving.moves == []
    assert application.not_carried_out_because == "plan 1 did not keep its promise"
    # Where we see it ourselves, whatever it says.
    seen = observation(NEW)
    above = replace(seen.servers[0], maximum_bytes=8 << 20)
    application._asked = lambda _: replace(seen, servers=(above, *seen.servers[1:]))
    assert application.take(plan(NEW).dumps(), "good")
    assert receiving.moves == [NEW]


def test_the_first_plans_say_how_little_is_known(receiving: Receiving) -> None:
    application = receiving.application
    application._asked = lambda cycle: replace(observation(cycle), cycle_seconds=600.0)
    assert application.take(plan(OLD).dumps(), "first")
    assert application.last_gain.known is not None
    assert application.last_gain.known.startswith("how far curves are known: ")
    application._first_at_seconds -= 601.0
    assert application.take(plan(NEW).dumps(), "later")
    assert application.last_gain.known is None


def test_the_way_back_from_a_plan_leads_to_planned_sizes(receiving: Receiving) -> None:
    told: list[dict[str, int]] = []
    receiving.application.on_carried_out = lambda _plan, in_force, _before: told.append(in_force)
    receiving._engaged.sizes_in_force = lambda: {"a": 3, "b": 5}
    receiving._engaged.sizes_to_come_back_to = lambda: {"a": 2, "b": 6}
    assert receiving.application.take(plan(NEW).dumps(), "good")
    assert receiving.store.now.control.before_plan_bytes == {"a": 2, "b": 6}
    assert told == [{"a": 2, "b": 5}]  # by which it is judged: what is set by hand is put back


def test_who_orders_a_plan_gets_none_that_would_break_what_is_seen(receiving: Receiving) -> None:
    application = receiving.application
    with receiving.store.update() as state:
        state.targets_bytes = {s.name: s.maxmemory_before_bytes for s in plan(FORGED).servers}
        wait = Wait(time.time() + 600, "plan 1 did not keep its promise", 1)
        state.control = replace(state.control, wait=wait)
    assert application.take(plan(FORGED).dumps(), "good")
    receiving._engaged.objection_to = lambda *_: None
    application._asked = kept
    with pytest.raises(OrderRefusedError, match="cannot be carried out: out_of_range: "):
        application.carry_out_recommended()
    application._asked = observation
    assert "carrying out plan 103" in application.carry_out_recommended()
    assert receiving.moves == [FORGED]


def test_who_keeps_what_a_bound_forbids_is_refused(receiving: Receiving) -> None:
    """Or a planner that always keeps all sizes takes the operator's bounds from him."""
    application = receiving.application
    keeping = replace(
        plan(OLD),
        decision="keep",
        servers=tuple(
            replace(one, maxmemory_bytes=one.maxmemory_before_bytes) for one in plan(OLD).servers
        ),
    )
    seen = observation(OLD)
    above = replace(seen.servers[0], maximum_bytes=8 << 20)
    application._asked = lambda _: replace(seen, servers=(above, *seen.servers[1:]))
    assert not application.take(keeping.dumps(), "forged")
    assert receiving.metrics.value("plans_refused", reason="keeps_what_must_move") == 1
    assert application.problem is not None
    assert "above its maximum" in application.problem
    # Where it cannot be moved, nobody could have planned otherwise.
    stuck = replace(above, keep_reason="stuck: it frees nothing")
    application._asked = lambda _: replace(seen, servers=(stuck, *seen.servers[1:]))
    assert application.take(keeping.dumps(), "good")
    assert application.problem is None


def test_what_was_asked_for_before_an_order_is_not_carried_out_after_it(
    receiving: Receiving,
) -> None:
    application = receiving.application
    with receiving.store.update() as state:
        state.overtake()
    for cycle in (OLD, NEW, FORGED):
        assert not application.take(plan(cycle).dumps(), "held back")
    assert receiving.moves == []
    assert receiving.metrics.value("plans_refused", reason="old_cycle") == 3


def test_another_file_overtakes_what_was_asked_for_also_over_a_restart(
    receiving: Receiving, tmp_path: Path
) -> None:
    with receiving.store.update() as state:
        state.keep_to("one")  # as the first start does, or one after an upgrade
    assert receiving.application.take(plan(OLD).dumps(), "good")
    path = tmp_path / "state.json"
    with StateStore(path).update() as state:
        state.asked, state.last_cycle = receiving.store.now.asked, FORGED
        state.keep_to("one")
    restarted = StateStore(path)
    for told, waits in (("one", True), ("other", False)):
        with restarted.update() as state:
            state.keep_to(told)
        assert bool(restarted.now.asked) == waits
    assert restarted.now.applied_cycle == FORGED
