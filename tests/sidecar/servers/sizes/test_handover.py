"""The handover's promises, for any servers: the budget, the targets, and nothing lost in vain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.servers.sizes import intermediate_sizes
from sidecar.servers.sizes.handover import Holding, attainable, handover
from sidecar.servers.sizes.intermediate_sizes import IntermediateSizes, MemoryNeed
from sidecar.servers.sizes.transitions import Grow, ServerState, Shrink, resolve
from tests.examples import examples
from tests.sidecar.servers.sizes.test_transitions import breathed

MB = 1 << 20
BUDGET = 100 * MB

sizes = st.integers(0, BUDGET)
shares = st.lists(st.integers(1, 50), min_size=2, max_size=6)


def _divided(shares: list[int], budget_bytes: int = BUDGET) -> list[int]:
    return [budget_bytes * share // sum(shares) for share in shares]


@st.composite
def holdings(draw: st.DrawFn, *, fills: bool = True) -> list[Holding]:
    """Sizes and targets within the budget; ``fills=False``: those to grow have room and do not
    fill it."""
    has = _divided(draw(shares), draw(st.integers(BUDGET // 2, BUDGET)))
    count = len(has)
    wanted = draw(st.lists(st.integers(1, 50), min_size=count, max_size=count))
    targets = _divided(wanted, draw(st.integers(MB, BUDGET)))
    made = []
    for place, (size, target) in enumerate(zip(has, targets, strict=True)):
        used, filled = draw(sizes), draw(sizes)
        if not fills:
            used, filled = (0 if target > size else used), 0
            if target > size:
                target = min(target, 4 * size)
        least, most = draw(st.integers(0, size)), draw(st.none() | sizes) if fills else None
        made.append(Holding(f"s{place}", size, target, used, filled, least, most))
    return made


def _total(given: list[Holding], *, target: bool = False) -> int:
    return sum(one.target_bytes if target else one.size_bytes for one in given)


@settings(max_examples=examples(400))
@given(given=holdings(), left=st.integers(0, BUDGET))
def test_the_sizes_stay_within_the_budget_and_between_those_of_now_and_the_targets(
    given: list[Holding], left: int
) -> None:
    found = handover(given, left)
    goals = attainable(given, left)
    for one in given:
        low, high = sorted((one.size_bytes, goals[one.name]))
        assert low <= found[one.name] <= high
        assert goals[one.name] <= one.target_bytes
    # Where what is left is too little, everybody is at its goal, and none of them grows.
    assert sum(found.values()) <= left or found == goals
    assert sum(goals.values()) <= left or all(
        goals[one.name] <= max(0, min(one.size_bytes, one.target_bytes)) for one in given
    )


@settings(max_examples=examples(400))
@given(given=holdings())
def test_who_is_full_and_is_to_grow_gets_room(given: list[Holding]) -> None:
    given = [replace(one, used_bytes=one.size_bytes) for one in given]
    found = handover(given, BUDGET)
    for one in given:
        if one.target_bytes > one.size_bytes:
            room = max(2 * one.filled_bytes, one.target_bytes // 50, 64 << 10)
            assert found[one.name] == min(one.target_bytes, one.size_bytes + room)


@settings(max_examples=examples(400))
@given(given=holdings(fills=False))
def test_nobody_loses_what_it_uses_while_nobody_fills(given: list[Holding]) -> None:
    found = handover(given, BUDGET)
    # A plan that gives less in all does not wait for anybody.
    due = max(0, _total(given) - _total(given, target=True))
    lost = sum(max(0, min(one.size_bytes, one.used_bytes) - found[one.name]) for one in given)
    assert lost <= (due + len(given) if due else 0)
    for one in given:
        if one.target_bytes > one.size_bytes:
            assert found[one.name] == one.size_bytes


@settings(max_examples=examples(200))
@given(given=holdings())
def test_it_ends_at_the_targets_if_all_who_grow_fill(given: list[Holding]) -> None:
    for _ in range(60):
        found = handover(given, BUDGET)
        given = [
            replace(
                one,
                size_bytes=found[one.name],
                used_bytes=found[one.name],
                filled_bytes=max(0, found[one.name] - one.size_bytes),
            )
            for one in given
        ]
    assert [one.size_bytes for one in given] == [one.target_bytes for one in given]


@pytest.mark.parametrize("filled_a_look", [16 << 10, 64 << 10, 256 << 10])
def test_a_growth_by_half_takes_some_twenty_to_sixty_sizes_and_a_donor_as_few(
    filled_a_look: int,
) -> None:
    grower = Holding("grower", 40 * MB, 60 * MB, 40 * MB, 0)
    donor = Holding("donor", 60 * MB, 40 * MB, 60 * MB, 0)
    changes = {"grower": 0, "donor": 0}
    for _ in range(2000):
        found = handover([grower, donor], BUDGET)
        changes["grower"] += found["grower"] != grower.size_bytes
        changes["donor"] += found["donor"] != donor.size_bytes
        used = min(grower.used_bytes + filled_a_look, found["grower"])
        grower = Holding("grower", found["grower"], 60 * MB, used, used - grower.used_bytes)
        donor = Holding("donor", found["donor"], 40 * MB, found["donor"], 0)
    assert (grower.size_bytes, donor.size_bytes) == (60 * MB, 40 * MB)
    assert 15 <= changes["grower"] <= 60
    assert 10 <= changes["donor"] <= changes["grower"]


def test_what_is_not_used_is_given_first() -> None:
    grower = Holding("grower", 20 * MB, 40 * MB, 20 * MB, 2 * MB)
    idle = Holding("idle", 40 * MB, 30 * MB, 25 * MB, 0)
    full = Holding("full", 40 * MB, 30 * MB, 40 * MB, 0)
    found = handover([grower, idle, full], BUDGET)
    assert found == {"grower": 24 * MB, "idle": 36 * MB, "full": 40 * MB}


def test_a_plan_for_less_in_all_does_not_wait() -> None:
    grower = Holding("grower", 20 * MB, 30 * MB, 0, 0)
    donor = Holding("donor", 80 * MB, 40 * MB, 80 * MB, 0)
    assert handover([grower, donor], BUDGET) == {"grower": 20 * MB, "donor": 50 * MB}


@dataclass
class Node:
    """Servers that do what they are told, some of them not always, and fill at will."""

    states: list[ServerState]
    targets: dict[str, int]
    way: IntermediateSizes

    def step(self, carried_out: int | None = None) -> None:
        planned = [replace(s, target_bytes=self.targets[s.name]) for s in self.states]
        self.way.follow(planned, {s.name: MemoryNeed(s.held_bytes, 0) for s in self.states})
        wanted = self.way.sizes_bytes
        before = sum(state.maxmemory_bytes for state in self.states)
        states = [replace(s, target_bytes=wanted[s.name]) for s in self.states]
        for transition in list(resolve(states, BUDGET))[:carried_out]:
            if isinstance(transition, Shrink | Grow):
                place = [state.name for state in states].index(transition.name)
                self.states[place] = replace(
                    self.states[place], maxmemory_bytes=transition.to_bytes
                )
            after = sum(state.maxmemory_bytes for state in self.states)
            assert after <= max(before, BUDGET)


def _retarget(node: Node, shares: list[int]) -> None:
    targets = _divided(shares)
    node.targets = {state.name: size for state, size in zip(node.states, targets, strict=True)}
    node.way.retarget(node.targets)


@settings(max_examples=examples(300))
@given(data=st.data(), first=shares)
def test_with_the_resolver_it_keeps_the_budget_whatever_happens_and_arrives_when_all_is_well(
    data: st.DataObject, first: list[int]
) -> None:
    begun = {f"s{place}": size for place, size in enumerate(_divided(first))}
    states = [ServerState(name, size, 0, size) for name, size in begun.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intermediate_sizes, "LOOK_SECONDS", 0.0)
        way = IntermediateSizes(BUDGET, gradual=True)
        way.begin(begun)
        node = Node(states, begun, way)
        new_shares = st.lists(st.integers(1, 50), min_size=len(first), max_size=len(first))
        for _ in range(data.draw(st.integers(1, 8), "events")):
            if data.draw(st.booleans(), "new plan"):
                _retarget(node, data.draw(new_shares))
            place = data.draw(st.integers(0, len(first) - 1))
            change = data.draw(
                st.sampled_from(["reachable", "evicts", "refuses", "stuck", "by hand"])
            )
            one = node.states[place]
            if change == "by hand":
                size = data.draw(st.one_of(st.integers(1, 2 * BUDGET), st.just(math.inf)))
                node.states[place] = replace(one, maxmemory_bytes=size)
            else:
                node.states[place] = replace(one, **{change: data.draw(st.booleans())})
            _fill(node, data.draw(st.floats(0, 1), "filled"))
            # resolve itself says so if the sizes exceed the budget.
            node.step(data.draw(st.integers(0, 10), "carried out"))
        node.states = [
            replace(state, reachable=True, evicts=True, refuses=False, stuck=False)
            for state in node.states
        ]
        for _ in range(120):
            _fill(node, 1.0)
            node.step()
    assert [s.maxmemory_bytes for s in node.states] == [node.targets[s.name] for s in node.states]


def _fill(node: Node, share: float) -> None:
    node.states = breathed(node.states, share)


def _way(sizes_bytes: dict[str, int]) -> tuple[IntermediateSizes, Callable[..., dict[str, int]]]:
    way = IntermediateSizes(BUDGET, gradual=True)
    way.begin(sizes_bytes)

    def follow(states: list[ServerState], **needs: MemoryNeed) -> dict[str, int]:
        way.follow(states, {state.name: MemoryNeed(0, 0) for state in states} | needs)
        return way.sizes_bytes

    return way, follow


def test_who_would_refuse_writes_does_not_wait_for_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intermediate_sizes, "LOOK_SECONDS", 3600.0)
    way, follow = _way({"a": 20 * MB, "b": 80 * MB})
    states = [ServerState("a", 20 * MB, 0, 50 * MB), ServerState("b", 80 * MB, 0, 50 * MB)]
    assert follow(states, a=MemoryNeed(19 * MB, 0), b=MemoryNeed(80 * MB, 0))["a"] == 20 * MB
    assert follow(states, a=MemoryNeed(20 * MB, 0), b=MemoryNeed(80 * MB, 0))["a"] == 20 * MB
    assert follow(states, a=MemoryNeed(20 * MB, 30 * MB), b=MemoryNeed(80 * MB, 0)) == {
        "a": 30 * MB,
        "b": 70 * MB,
    }
    # Nor does a new plan.
    way.retarget({"a": 60 * MB, "b": 40 * MB})
    states = [ServerState("a", 30 * MB, 0, 60 * MB), ServerState("b", 70 * MB, 0, 40 * MB)]
    assert follow(states, a=MemoryNeed(30 * MB, 0), b=MemoryNeed(70 * MB, 0))["a"] > 30 * MB


def test_what_cannot_be_had_beside_a_server_that_keeps_its_size_is_not_under_way() -> None:
    way, _ = _way({"fixed": 60 * MB, "a": 40 * MB})
    fixed = ServerState("fixed", 60 * MB, 0, 20 * MB, refuses=True)
    grower = ServerState("a", 40 * MB, 0, 80 * MB)
    assert way.under_way([fixed, grower]) == {}
    assert way.under_way([replace(fixed, refuses=False), grower]) == {
        "fixed": 20 * MB,
        "a": 80 * MB,
    }


def test_a_donor_that_frees_nothing_does_not_hold_up_another() -> None:
    _, follow = _way({"stuck": 30 * MB, "donor": 40 * MB, "a": 20 * MB})
    stuck = ServerState("stuck", 30 * MB, 36 * MB, 10 * MB, stuck=True)
    donor = ServerState("donor", 40 * MB, 40 * MB, 20 * MB)
    grower = ServerState("a", 20 * MB, 20 * MB, 60 * MB)
    needs = {state.name: MemoryNeed(state.held_bytes, 0) for state in (stuck, donor, grower)}
    sizes = follow([stuck, donor, grower], **needs)
    assert sizes["stuck"] == 30 * MB
    assert 20 * MB < sizes["a"] <= BUDGET - 36 * MB - sizes["donor"]


def test_a_donor_that_frees_nothing_gives_at_once_what_another_one_needs_to_take_writes() -> None:
    """Its limit is below what it holds already: to lower it evicts nothing more."""
    way, follow = _way({"stuck": 60 * MB, "needs": 20 * MB, "a": 20 * MB})
    stuck = ServerState("stuck", 60 * MB, 90 * MB, 50 * MB, stuck=True)
    others = [
        ServerState("needs", 20 * MB, 20 * MB, 30 * MB),
        ServerState("a", 20 * MB, 0, 20 * MB),
    ]
    needs = {"needs": MemoryNeed(20 * MB, 24 * MB), "a": MemoryNeed(0, 0)}
    for limit in (60, 56, 56):
        stuck = replace(stuck, maxmemory_bytes=limit * MB)
        sizes = follow([stuck, *others], stuck=MemoryNeed(90 * MB, 0), **needs)
        assert sizes["stuck"] == 56 * MB
    assert way.sizes_bytes["needs"] == 24 * MB
    # Not where it is resident memory alone that does not come back: keys would go.
    way, follow = _way({"stuck": 60 * MB, "needs": 20 * MB, "a": 20 * MB})
    stuck = replace(stuck, maxmemory_bytes=60 * MB)
    assert follow([stuck, *others], stuck=MemoryNeed(58 * MB, 0), **needs)["stuck"] == 60 * MB


def test_who_holds_more_than_it_may_because_nothing_can_be_evicted_still_grows() -> None:
    _, follow = _way({"donor": 80 * MB, "a": 20 * MB})
    donor = ServerState("donor", 80 * MB, 70 * MB, 60 * MB)
    grower = ServerState("a", 20 * MB, 25 * MB, 40 * MB, stuck=True)
    sizes = follow([donor, grower], donor=MemoryNeed(70 * MB, 0), a=MemoryNeed(25 * MB, 28 * MB))
    assert sizes["a"] >= 28 * MB


def test_nobody_gives_for_one_that_cannot_be_given_it_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hung while it got memory made the others give all of it at once, to nobody."""
    monkeypatch.setattr(intermediate_sizes, "LOOK_SECONDS", 0.0)
    way, follow = _way({"a": 20 * MB, "b": 40 * MB, "c": 40 * MB})
    hangs = ServerState("a", 20 * MB, 0, 50 * MB, reachable=False)
    others = [ServerState("b", 40 * MB, 0, 40 * MB), ServerState("c", 40 * MB, 0, 10 * MB)]
    full = {name: MemoryNeed(40 * MB, 0) for name in "bc"}
    for _ in range(3):
        assert follow([hangs, *others], **full) == {"a": 20 * MB, "b": 40 * MB, "c": 40 * MB}
    # But it is still to have it: a sidecar that comes back goes on, and a plan goes on from there.
    assert way.under_way([hangs, *others]) == {"c": 10 * MB}
    # One that was never seen counts with what the others leave.
    unseen = replace(hangs, maxmemory_bytes=math.inf)
    assert follow([unseen, *others], **full) == {"a": 20 * MB, "b": 40 * MB, "c": 40 * MB}
    # Not what others are to get, nor above a maximum.
    grows, gives = ServerState("b", 40 * MB, 0, 45 * MB), ServerState("c", 40 * MB, 0, 5 * MB)
    assert follow([hangs, grows, gives], **full)["b"] > 40 * MB
    for _ in range(9):
        follow([hangs, grows, gives], b=MemoryNeed(way.sizes_bytes["b"], 0), c=full["c"])
    assert way.sizes_bytes == {"a": 20 * MB, "b": 45 * MB, "c": 35 * MB}
    way.begin({"a": 20 * MB, "b": 40 * MB, "c": 40 * MB})
    way.bounds_bytes = {"c": (1, 25 * MB)}
    assert follow([hangs, *others], **full)["c"] == 25 * MB
    # When it answers it gets what is planned.
    way.bounds_bytes = {}
    answers = replace(hangs, reachable=True)
    assert follow([answers, *others], a=MemoryNeed(20 * MB, 0), **full)["a"] > 20 * MB


def test_without_gradual_the_targets_count_at_once() -> None:
    way = IntermediateSizes(BUDGET, gradual=False)
    way.begin({"a": 20 * MB, "b": 80 * MB})
    way.retarget({"a": 80 * MB, "b": 20 * MB})
    way.follow([ServerState("a", 20 * MB, 0, 80 * MB), ServerState("b", 80 * MB, 0, 20 * MB)], {})
    assert way.sizes_bytes == {"a": 80 * MB, "b": 20 * MB}


def test_bounds_count_at_once_though_nobody_fills_the_memory() -> None:
    way, follow = _way({"a": 60 * MB, "b": 40 * MB})
    states = [ServerState("a", 60 * MB, 0, 30 * MB), ServerState("b", 40 * MB, 0, 70 * MB)]
    assert follow(states)["a"] == 60 * MB
    # A plan by an older maximum says nothing of this one.
    way.bounds_bytes = {"a": (1, 20 * MB)}
    way.retarget({})
    assert follow(states)["a"] == 60 * MB
    way.bounds_bytes = {"a": (1, 45 * MB), "b": (50 * MB, None)}
    way.retarget({})
    assert follow(states) == {"a": 45 * MB, "b": 50 * MB}
