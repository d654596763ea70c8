"""The actuator over models of servers: what it says and does, in simulated time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sidecar.servers import actuator as module
from sidecar.servers.actuator import Actuator
from sidecar.servers.server_contact import NotSentError
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.control_state import Pause
from sidecar.state.state_store import StateStore
from tests.sidecar.model_node import Node
from workloads.experiment.faults.model.model_server import MIB
from workloads.experiment.faults.model.model_stage import BUDGET_BYTES
from workloads.experiment.faults.model.simulated_time import simulated_time
from workloads.quiet_log import quiet_log


def test_it_says_of_each_server_what_is_known(node: Node) -> None:
    node.stage.wait(2)
    assert node.actuator.run_ids() == {"s0": "s0-1", "s1": "s1-1"}
    assert node.actuator.errors() == {}
    assert node.actuator.taken() == node.actuator.refused() == {}
    assert node.actuator.kept() == {}
    windows = node.actuator.windows()
    assert {name: window.readings > 1 for name, window in windows.items()} == {
        "s0": True,
        "s1": True,
    }
    node.stage.refuse(1)
    node.stage.plan(3, 1)
    node.stage.kill_server(0)
    node.stage.wait(0.3)
    assert node.actuator.errors() == {"s0": "it is dead"}
    assert node.actuator.kept() == {"s1": "refuses: CONFIG SET: the user may not"}
    assert {state.name: state.reachable for state in node.actuator.latest} == {
        "s0": False,
        "s1": True,
    }


def test_targets_above_the_budget_change_nothing(node: Node) -> None:
    before = node.actuator.targets()
    with pytest.raises(ValueError, match=r"^much: the targets exceed the budget$"):
        node.actuator.set_targets({"s0": BUDGET_BYTES}, "much")
    assert node.actuator.targets() == before
    node.actuator.set_targets({"s0": before["s0"] - MIB}, "less")
    assert node.actuator.targets() == {**before, "s0": before["s0"] - MIB}
    assert not node.store.now.settled
    assert not node.actuator.settled


def test_who_looks_on_sets_nothing_and_begins_again_when_told(node: Node) -> None:
    node.stage.wait(1)
    node.actuator.watch()
    node.stage.plan(3, 1)
    node.actuator.looks_on = True  # a plan is noted all the same
    node.stage.wait(3)
    assert [server.maxmemory_bytes for server in node.servers] == [24 * MIB, 24 * MIB]
    assert node.actuator.settled
    assert node.actuator.taken() == node.actuator.refused() == {}
    with pytest.raises(ValueError, match=r"^much: "):
        node.actuator.engage({}, {"s0": BUDGET_BYTES}, "much")
    sizes = {"s0": 30 * MIB, "s1": 18 * MIB}
    node.actuator.engage(sizes, sizes, "again")
    node.stage.wait(3)
    assert [server.maxmemory_bytes for server in node.servers] == [30 * MIB, 18 * MIB]


def test_what_is_found_is_wanted_where_nobody_has_planned(node: Node) -> None:
    with node.store.update() as state:
        state.control = replace(state.control, engaged=False)
    node.actuator.watch()
    node.stage.set_by_hand(0, 8)
    node.stage.wait(1)
    assert node.actuator.targets() == {"s0": 8 * MIB, "s1": 24 * MIB}
    # From here on it is as if nobody had set anything by hand.
    sizes = {"s0": 8 * MIB, "s1": 24 * MIB}
    node.actuator.engage(sizes, sizes, "begin")
    node.stage.wait(1)
    assert node.actuator.kept() == {}


def test_former_sizes_are_given_back_and_not_in_a_pause(node: Node) -> None:
    with node.store.update() as state:
        sizes = {"s0": 8 * MIB, "s1": 20 * MIB}
        pause = Pause("ana", 0.0)
        state.control = replace(state.control, restoring_bytes=sizes, pause=pause)
    node.actuator.watch()
    node.stage.wait(1)
    assert node.servers[0].maxmemory_bytes == 24 * MIB
    with node.store.update() as state:
        state.control = replace(state.control, pause=None)
    node.stage.wait(1)
    assert [server.maxmemory_bytes for server in node.servers] == [8 * MIB, 20 * MIB]
    assert node.store.now.control.restoring_bytes == {}
    node.stage.wait(1)
    assert all(server.is_as_it_was for server in node.servers)


def test_a_budget_that_falls_is_kept_at_once(node: Node) -> None:
    node.stage.wait(1)
    node.actuator.budget.ceiling_bytes = 40 * MIB
    node.stage.wait(2)
    assert sum(server.maxmemory_bytes for server in node.servers) <= 40 * MIB
    assert sum(node.actuator.targets().values()) <= 40 * MIB


def test_after_hurry_nothing_is_asked_or_set(node: Node) -> None:
    node.stage.wait(1)
    node.stage.plan(3, 1)
    node.actuator.hurry()
    assert node.actuator.read_all() == {"s0": None, "s1": None}
    node.actuator.step()
    assert [server.maxmemory_bytes for server in node.servers] == [24 * MIB, 24 * MIB]


def test_its_thread_steps_and_what_ends_it_is_passed_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = threading.Event()

    def fails(_actuator: Actuator) -> None:
        stepped.set()
        raise RuntimeError("broken")

    monkeypatch.setattr(Actuator, "step", fails)
    node.actuator.check()
    node.actuator.start()
    assert stepped.wait(30)
    assert node.actuator._thread.join(30)
    with pytest.raises(RuntimeError, match="broken"):
        node.actuator.check()


def test_who_hangs_is_not_left_in_order(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[list[object]] = []
    waited: list[float] = []
    monkeypatch.setattr(module, "leave_in_order", lambda watches: left.append(list(watches)))
    monkeypatch.setattr(node.actuator._thread, "join", waited.append)
    node.actuator.stop()
    assert left == []
    assert waited == [module.STOP_SECONDS]
    monkeypatch.setattr(node.actuator._thread, "join", lambda _seconds: True)
    node.actuator.stop()
    assert left == [list(node.actuator._watches.values())]


def test_it_waits_long_only_where_nothing_moves(node: Node) -> None:
    node.stage.wait(3)
    assert node.actuator.settled
    assert node.actuator._pause_seconds() == module.IDLE_SECONDS
    node.actuator.set_targets({"s0": 10 * MIB}, "less")
    assert node.actuator._pause_seconds() == module.BUSY_SECONDS
    node.actuator.pace.is_waiting = True
    assert node.actuator._pause_seconds() == module.PORTION_SECONDS


def test_it_waits_where_a_server_takes_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose size was set again each time had all servers read fifty times a second."""
    node.stage.wait(3)
    watch = node.actuator._watches["s0"]

    def late(*_: object) -> None:
        raise NotSentError("it gets the next one later")

    monkeypatch.setattr(watch.contact, "set", late)
    node.actuator.set_targets({"s0": 10 * MIB}, "less")
    node.actuator.step()
    assert node.actuator._pause_seconds() == module.IN_VAIN_SECONDS
    monkeypatch.undo()
    node.actuator.step()
    assert node.actuator._pause_seconds() == module.BUSY_SECONDS


def test_it_notices_in_a_pause_who_comes_back(node: Node) -> None:
    node.stage.wait(2)
    assert not node.actuator._one_comes_back()
    node.servers[0].kill()
    node.servers[0].start(48 * MIB)
    assert node.actuator._one_comes_back()
    assert not node.actuator._one_comes_back()


def test_a_shrink_goes_on_without_its_mode_where_that_cannot_be_kept(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: what is normal is not on file, so it is not changed."""
    node.stage.wait(2)
    node.store.is_saved = False
    monkeypatch.setattr(StateStore, "is_saved", False, raising=False)
    monkeypatch.setattr("sidecar.servers.shrink_mode.ShrinkMode.save_settings", lambda *_: False)
    seen: set[str] = set()
    node.stage._clock.on_advance = lambda _seconds: seen.add(node.servers[1].knobs["hz"])
    node.stage.plan(3, 1)
    node.stage.wait(2)
    assert node.servers[1].maxmemory_bytes == 2 * MIB + 11 * MIB
    assert seen == {"10"}


def test_pages_are_waited_for_in_shrink_mode(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.stage.wait(2)
    waits = property(lambda _budget: True)
    monkeypatch.setattr("sidecar.servers.sizes.memory_budget.MemoryBudget.waits_for_pages", waits)
    node.stage.plan(3, 1)
    node.stage.wait(5)
    assert not node.servers[1].is_as_it_was
    monkeypatch.undo()
    node.stage.wait(2)
    assert node.servers[1].is_as_it_was


@pytest.mark.parametrize("mebibytes", [8, 24])
def test_who_comes_back_with_no_more_than_its_size_is_not_cut(node: Node, mebibytes: int) -> None:
    node.stage.wait(2)
    node.servers[0].kill()
    node.servers[0].start(mebibytes * MIB)
    node.actuator.step()
    # In one step it is seen, and given back what is missing.
    assert node.servers[0].maxmemory_bytes == 24 * MIB
    assert node.servers[0].is_as_it_was


def test_where_memory_is_handed_over_a_shrink_takes_its_time() -> None:
    with quiet_log(), simulated_time() as clock:
        node = Node(clock, "handover")
        node.stage.wait(3)
        node.stage.plan(3, 1)
        node.stage.wait(0.2)
        assert node.servers[1].maxmemory_bytes > 13 * MIB
        node.stage.settle()
        assert node.stage.verdict().ok
        assert node.servers[1].maxmemory_bytes == 13 * MIB


# --- Whom the actuator tells what in a step, over models of servers in simulated time.


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
        lambda readings, *, acts, **more: (told.append(acts), refresh(readings, acts=acts, **more)),
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
        "resize_returned_server",
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
    monkeypatch.setattr(node.actuator.convergence, "note", lambda **what: told.append(what))
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
    # A script of a client may write much before anything is evicted for it: nothing waits for that.
    node.servers[0].used_bytes = 10 * MIB
    node.stage.wait(10)  # for resident memory
    node.servers[0].used_bytes = 20 * MIB
    node.actuator.step()
    assert (told[-1]["freeing"], node.actuator.latest[0].is_freeing) == (False, True)


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
