"""One transition on its server, over models of servers: done or not, counted, and in order."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from sidecar.servers.apply_transitions import (
    apply_in_order,
    apply_transition,
    resize_returned_server,
)
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.side_by_side import answers
from sidecar.servers.sizes.transitions import (
    EnterShrinkMode,
    Grow,
    LeaveShrinkMode,
    Shrink,
    Transition,
)
from tests.sidecar.model_node import Node
from workloads.experiment.faults.model.model_server import MIB


@pytest.fixture(autouse=True)
def settled(node: Node) -> None:
    node.stage.wait(2)


def watch(node: Node, place: int) -> ServerWatch:
    return node.actuator._watches[f"s{place}"]


class Counted:
    """What was counted of each server since it was made: other nodes share the metrics."""

    def __init__(self, node: Node, metric: str) -> None:
        self._node, self._metric = node, metric
        self._before = self._now()

    def _now(self) -> list[int]:
        return [self._node.metrics.value(self._metric, instance=name) for name in ("s0", "s1")]

    @property
    def more(self) -> list[int]:
        return [now - then for now, then in zip(self._now(), self._before, strict=True)]


def test_what_is_done_is_said_and_counted_for_its_server(node: Node) -> None:
    sized, moved = Counted(node, "config_set_maxmemory"), Counted(node, "transitions")
    failed = Counted(node, "transitions_failed")
    assert apply_transition(Shrink("s1", 24 * MIB, 20 * MIB), watch(node, 1), node.metrics)
    assert apply_transition(Grow("s0", 24 * MIB, 28 * MIB), watch(node, 0), node.metrics)
    assert [server.maxmemory_bytes for server in node.servers] == [28 * MIB, 20 * MIB]
    assert (sized.more, moved.more, failed.more) == ([1, 1], [1, 1], [0, 0])


def test_a_shrink_mode_is_put_in_force_and_taken_back(node: Node) -> None:
    without = Counted(node, "shrinks_without_mode")
    assert apply_transition(EnterShrinkMode("s1"), watch(node, 1), node.metrics)
    assert not node.servers[1].is_as_it_was
    assert list(answers([watch(node, 1)]))
    assert apply_transition(LeaveShrinkMode("s1"), watch(node, 1), node.metrics)
    assert node.servers[1].is_as_it_was
    assert without.more == [0, 0]


def test_a_mode_that_cannot_be_kept_on_file_is_left_out_and_counted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = Counted(node, "shrinks_without_mode")
    monkeypatch.setattr("sidecar.servers.shrink_mode.ShrinkMode.save_settings", lambda *_: False)
    assert apply_transition(EnterShrinkMode("s1"), watch(node, 1), node.metrics)
    assert node.servers[1].is_as_it_was
    assert without.more == [0, 1]


@pytest.mark.parametrize("transition", [Grow("s1", 24 * MIB, 28 * MIB), EnterShrinkMode("s1")])
def test_what_a_server_refuses_is_not_done(node: Node, transition: Transition) -> None:
    failed, moved = Counted(node, "transitions_failed"), Counted(node, "transitions")
    node.servers[1].refuses = True
    assert not apply_transition(transition, watch(node, 1), node.metrics)
    assert (failed.more, moved.more) == ([0, 1], [0, 0])
    assert watch(node, 1).keep_reason(watch(node, 1).state(24 * MIB))


def test_what_nobody_hears_is_not_done(node: Node) -> None:
    failed = Counted(node, "transitions_failed")
    node.servers[1].kill()
    assert not apply_transition(Grow("s1", 24 * MIB, 28 * MIB), watch(node, 1), node.metrics)
    assert failed.more == [0, 1]
    assert node.servers[1].maxmemory_bytes == 24 * MIB


def test_a_shrink_that_would_refuse_writes_or_grow_is_not_sent(node: Node) -> None:
    failed = Counted(node, "transitions_failed")
    node.servers[1].evicts = False
    assert not apply_transition(Shrink("s1", 24 * MIB, 20 * MIB), watch(node, 1), node.metrics)
    node.servers[1].evicts = True
    node.servers[1].maxmemory_bytes = 16 * MIB  # somebody's hand, meanwhile
    assert not apply_transition(Shrink("s1", 24 * MIB, 20 * MIB), watch(node, 1), node.metrics)
    assert node.servers[1].maxmemory_bytes == 16 * MIB
    assert failed.more == [0, 0]


def test_they_are_carried_out_in_order_and_nobody_grows_after_a_failure(node: Node) -> None:
    watches, go_on = node.actuator._watches, threading.Event()
    assert apply_in_order([], watches, node.metrics, go_on).moved is False
    grow, shrink = Grow("s0", 24 * MIB, 28 * MIB), Shrink("s1", 24 * MIB, 20 * MIB)
    assert apply_in_order([shrink, grow], watches, node.metrics, go_on).moved is True
    assert [server.maxmemory_bytes for server in node.servers] == [28 * MIB, 20 * MIB]
    node.servers[1].refuses = True
    later = [Shrink("s1", 20 * MIB, 16 * MIB), Grow("s0", 28 * MIB, 32 * MIB)]
    assert apply_in_order(later, watches, node.metrics, go_on).moved is True
    assert node.servers[0].maxmemory_bytes == 28 * MIB
    # But whoever else is to shrink does.
    gives = [
        EnterShrinkMode("s1"),
        Shrink("s1", 20 * MIB, 16 * MIB),
        Shrink("s0", 28 * MIB, 24 * MIB),
    ]
    assert apply_in_order(gives, watches, node.metrics, go_on).moved is True
    assert [server.maxmemory_bytes for server in node.servers] == [24 * MIB, 20 * MIB]


def test_nothing_is_carried_out_after_a_stop(node: Node) -> None:
    stop = threading.Event()
    stop.set()
    grow = Grow("s0", 24 * MIB, 28 * MIB)
    assert apply_in_order([grow], node.actuator._watches, node.metrics, stop).moved is True
    assert node.servers[0].maxmemory_bytes == 24 * MIB


def come_back(
    node: Node, maxmemory_mib: int, used_mib: int = 1, *, evicts: bool = True
) -> ServerWatch:
    """The first server as a new process that has just answered."""
    server = node.servers[0]
    server.kill()
    server.start(maxmemory_mib * MIB)
    server.evicts = evicts
    server.used_bytes = used_mib * MIB
    return next(watch for watch in answers(node.actuator._watches.values()) if watch.name == "s0")


SIZES = {"s0": 24 * MIB, "s1": 24 * MIB}


@pytest.mark.parametrize(("used_mib", "is_gentle"), [(1, False), (24, False), (25, True)])
def test_who_came_with_more_than_its_size_gives_it(
    node: Node, used_mib: int, is_gentle: bool
) -> None:
    moved = Counted(node, "transitions")
    resize_returned_server(come_back(node, 48, used_mib), SIZES, node.metrics)
    assert node.servers[0].maxmemory_bytes == 24 * MIB
    assert node.servers[0].is_as_it_was is not is_gentle
    assert moved.more == [1 + is_gentle, 0]


def test_who_came_in_shrink_mode_is_not_put_into_it_again(node: Node) -> None:
    came = come_back(node, 48, 25)
    assert apply_transition(EnterShrinkMode("s0"), came, node.metrics)
    moved = Counted(node, "transitions")
    node.servers[0].used_bytes = 25 * MIB
    came = next(one for one in answers(node.actuator._watches.values()) if one.name == "s0")
    assert came.state(24 * MIB).in_shrink_mode
    resize_returned_server(came, SIZES, node.metrics)
    assert node.servers[0].maxmemory_bytes == 24 * MIB
    assert moved.more == [1, 0]


@pytest.mark.parametrize("maxmemory_mib", [8, 24])
def test_who_came_with_no_more_than_its_size_is_left_alone(node: Node, maxmemory_mib: int) -> None:
    moved = Counted(node, "transitions")
    resize_returned_server(come_back(node, maxmemory_mib), SIZES, node.metrics)
    assert node.servers[0].maxmemory_bytes == maxmemory_mib * MIB
    assert moved.more == [0, 0]


def test_who_came_with_less_than_its_size_and_does_not_evict_gets_it(node: Node) -> None:
    moved = Counted(node, "transitions")
    resize_returned_server(come_back(node, 8, evicts=False), SIZES, node.metrics)
    assert node.servers[0].maxmemory_bytes == 24 * MIB
    assert moved.more == [1, 0]


@pytest.mark.parametrize("why", ["held", "refuses"])
def test_who_came_with_less_and_may_not_be_set_is_left_alone(node: Node, why: str) -> None:
    came = come_back(node, 8, evicts=False)
    state = replace(came.state(24 * MIB), **{why: True})
    moved = Counted(node, "transitions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(came, "state", lambda _: state)
        resize_returned_server(came, SIZES, node.metrics)
    assert node.servers[0].maxmemory_bytes == 8 * MIB
    assert moved.more == [0, 0]


def test_who_has_no_size_yet_or_was_there_all_along_is_not_cut(node: Node) -> None:
    resize_returned_server(come_back(node, 48), {"s1": 24 * MIB}, node.metrics)
    assert node.servers[0].maxmemory_bytes == 48 * MIB
    node.servers[1].maxmemory_bytes = 40 * MIB
    for one in answers(node.actuator._watches.values()):
        if one.name == "s1":
            resize_returned_server(one, SIZES, node.metrics)
    assert node.servers[1].maxmemory_bytes == 40 * MIB
