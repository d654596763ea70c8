"""Beside ``CONFIG SET``: sizes that nobody has judged are not set, whoever wants them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sidecar.base.metrics import Metrics
from sidecar.plans.plan_check import PlanRefusedError
from sidecar.servers.sizes.shrink_guard import ShrinkGuard
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from tests.sidecar.model_node import Node
from workloads.experiment.faults.model.model_server import MIB
from workloads.quiet_log import quiet_log


def seen(node: Node, keep_reason: str | None = None) -> Observation:
    """Both are read, and the first one may not shrink where there is a reason."""
    curve = MissRatioCurve(np.array([float(MIB)]), np.array([0.5]))
    s0, s1 = (
        ServerObservation(name, size, MIB, 1.0, 1000.0, 1e-4, 1e-2, curve)
        for name, size in node.actuator.targets().items()
    )
    return Observation("n", 7, 1.0, 60.0, 48 * MIB, (replace(s0, keep_reason=keep_reason), s1))


def limits(node: Node) -> list[float]:
    return [server.maxmemory_bytes for server in node.servers]


def test_a_plan_is_judged_again_in_the_hand(node: Node) -> None:
    wanted = {"s0": 16 * MIB, "s1": 32 * MIB}
    asked = seen(node, "stuck: it is")
    for order in (
        lambda: node.actuator.set_targets(wanted, "plan", asked),
        lambda: node.actuator.engage(wanted, wanted, "first plan", asked),
    ):
        with pytest.raises(PlanRefusedError, match=r"^out_of_range: s0: 16.*stuck: it is"):
            order()
    node.stage.wait(3)
    assert limits(node) == [24 * MIB, 24 * MIB]
    node.actuator.set_targets(wanted, "plan", seen(node))
    node.stage.wait(30)
    assert limits(node)[0] == 16 * MIB
    assert node.actuator.guard.problem is None


def test_sizes_that_came_past_every_check_are_not_set(node: Node) -> None:
    node.stage.wait(1)
    with node.store.update() as state:
        state.targets_bytes = {"s0": 4 * MIB, "s1": 44 * MIB}
    before = node.metrics.value("sizes_held_back")
    with quiet_log():
        node.stage.wait(30)
    assert limits(node) == [24 * MIB, 24 * MIB]
    assert node.metrics.value("sizes_held_back") == before + 1
    assert node.actuator.guard.problem is not None
    assert (
        "never judged, and are not set: s0 4 MiB instead of 24 MiB" in node.actuator.guard.problem
    )
    # What only grows harms nobody, and what we ourselves want is judged.
    with node.store.update() as state:
        state.targets_bytes = {"s0": 24 * MIB, "s1": 24 * MIB}
    node.stage.wait(1)
    node.actuator.set_targets({"s0": 20 * MIB}, "for the budget")
    node.stage.wait(30)
    assert limits(node)[0] == 20 * MIB
    assert node.actuator.guard.problem is None


def test_who_is_not_wanted_any_more_holds_up_nobody() -> None:
    guard = ShrinkGuard(Metrics())
    assert guard.problem is None
    guard.take({"s0": 8 * MIB, "s1": 8 * MIB})
    assert guard.held({"s1": 9 * MIB}, sets_sizes=True) == {"s1": 9 * MIB}
    assert guard.held({"s1": 7 * MIB}, sets_sizes=False) == {"s1": 7 * MIB}
    assert guard.problem is None
    wanted = {"s0": 6 * MIB, "s1": 7 * MIB}
    guard.expect(wanted)
    assert guard.held(wanted, sets_sizes=True) == wanted
    guard.take({"s0": 8 * MIB, "s1": 8 * MIB})
    assert guard.problem is None
    with quiet_log():
        assert guard.held(wanted, sets_sizes=True) == {"s0": 8 * MIB, "s1": 8 * MIB}
    assert "s0 6 MiB instead of 8 MiB, s1 7 MiB instead of 8 MiB" in str(guard.problem)


def test_while_nothing_is_set_anything_may_be_wanted(node: Node) -> None:
    node.stage.wait(1)
    node.actuator.watch()
    with node.store.update() as state:
        state.targets_bytes = {"s0": 4 * MIB, "s1": 44 * MIB}
    node.stage.wait(1)
    assert node.actuator.targets() == {"s0": 4 * MIB, "s1": 44 * MIB}
    assert node.actuator.guard.problem is None
