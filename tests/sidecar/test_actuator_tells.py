"""Whom the actuator tells what in a step, over models of servers in simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sidecar.servers import actuator as module
from sidecar.servers.actuator import Actuator
from sidecar.servers.transitions import ServerState
from tests.sidecar.model_node import Node
from workloads.experiment.faults.model.model_server import MIB
from workloads.experiment.faults.model.model_stage import BUDGET_BYTES


def test_before_its_first_step_it_knows_nothing_and_may_set_sizes(node: Node) -> None:
    watches = list(node.actuator._watches.values())
    fresh = Actuator(
        [watch._server for watch in watches],
        node.actuator.budget._memory,
        watches[0]._sampler._sampling,
        node.store,
        node.metrics,
    )
    assert fresh.looks_on is False
    assert fresh.intermediate_sizes.gradual
    assert fresh.intermediate_sizes.budget_bytes == BUDGET_BYTES
    assert (fresh.readings, fresh.latest, fresh.latest_least_bytes, fresh.too_small) == (
        {}, [], {}, set(),
    )  # fmt: skip
    assert fresh.at_seconds == pytest.approx(node.stage._clock.time(), abs=60)


def test_its_last_step_is_known_without_a_wait(node: Node) -> None:
    node.stage.wait(2)
    actuator = node.actuator
    assert actuator.at_seconds == pytest.approx(node.stage._clock.time(), abs=2)
    assert set(actuator.readings) == {"s0", "s1"}
    assert actuator.latest_least_bytes == actuator.least_bytes()
    assert set(actuator.least_bytes()) == {"s0", "s1"}
    assert all(least > 0 for least in actuator.least_bytes().values())
    actuator.watch()
    node.stage.wait(1)
    assert [state.name for state in actuator.latest] == ["s0", "s1"]


def test_the_budget_is_told_whether_anything_follows_from_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    refresh = node.actuator.budget.refresh
    monkeypatch.setattr(
        node.actuator.budget,
        "refresh",
        lambda readings, *, acts: (told.append(acts), refresh(readings, acts=acts)),
    )
    node.actuator.step()
    node.actuator.watch()
    node.actuator.step()
    assert told == [True, False]


def test_hands_are_told_where_somebody_may_have_set_a_size(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[object, bool]] = []
    monkeypatch.setattr(
        module,
        "note_manual_resizes",
        lambda _watches, hands, *, counts: noted.append((hands, counts)),
    )
    node.actuator._manual_resizes = hands = object()  # type: ignore[assignment]
    node.actuator.step()
    node.actuator.watch()
    node.actuator.step()
    with node.store.update() as state:
        state.control = replace(state.control, engaged=False)
    node.actuator.step()
    assert noted == [(hands, True), (hands, True), (hands, False)]
    noted.clear()
    sizes = {"s0": 24 * MIB, "s1": 24 * MIB}
    node.actuator.engage(sizes, sizes, "begin")
    assert noted == [(None, False)]
    with node.store.update() as state:
        state.control = replace(state.control, engaged=True)
    node.actuator.engage(sizes, sizes, "again")
    assert noted == [(None, False)]
    assert node.actuator.looks_on is False


def test_who_looks_on_tries_nothing_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    sets: list[bool] = []
    monkeypatch.setattr(
        type(node.actuator._watches["s0"]),
        "follow_up",
        lambda _watch, *, sets_sizes: sets.append(sets_sizes),
    )
    node.actuator.step()
    node.actuator.watch()
    node.actuator.step()
    assert sets == [True, True, False, False]


def test_who_comes_back_is_cut_only_where_sizes_are_set(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[str] = []
    monkeypatch.setattr(
        module,
        "cut_who_came",
        lambda watch, sizes, metrics: cut.append(watch.name) if sizes and metrics else None,
    )
    node.actuator.watch()
    node.actuator.step()
    assert cut == []
    node.actuator.looks_on = False
    node.actuator.step()
    assert sorted(cut) == ["s0", "s1"]


def test_its_arrival_is_told_what_happened_in_the_step(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.stage.wait(3)
    told: list[dict[str, object]] = []
    monkeypatch.setattr(node.actuator._convergence, "note", lambda **what: told.append(what))
    node.actuator.step()
    assert (told[-1]["moved"], told[-1]["freeing"], told[-1]["is_there"]) == (False, False, True)
    node.actuator.pace.is_waiting = True
    monkeypatch.setattr(node.actuator.pace, "slowed", lambda states, *_: states)
    node.actuator.step()
    assert told[-1]["moved"] is True
    node.actuator.pace.is_waiting = False
    node.actuator.set_targets({"s0": 10 * MIB}, "less")
    node.actuator.step()
    assert told[-1]["moved"] is True
    monkeypatch.setattr(node.actuator.intermediate_sizes, "is_there", lambda states: not states)
    node.servers[0].used_bytes = 20 * MIB
    node.actuator.step()
    assert (told[-1]["freeing"], told[-1]["is_there"]) == (True, False)
    words = told[-1]["in_words"]
    assert callable(words)
    assert "s0" in words()


@pytest.mark.parametrize("gradual", [False, True])
def test_shrinks_take_their_time_only_where_memory_is_handed_over(
    node: Node, monkeypatch: pytest.MonkeyPatch, gradual: bool
) -> None:
    node.actuator.intermediate_sizes.gradual = gradual
    slowed: list[int] = []

    def note(
        states: Sequence[ServerState], readings: object, least: object, budget_bytes: int
    ) -> Sequence[ServerState]:
        slowed.append(budget_bytes)
        return states

    monkeypatch.setattr(node.actuator.pace, "slowed", note)
    node.actuator.step()
    assert slowed == ([BUDGET_BYTES] if gradual else [])
