"""The resolver's promises, for every interrupted prefix of its transitions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.servers.sizes.transitions import (
    EnterShrinkMode,
    Grow,
    LeaveShrinkMode,
    ServerState,
    Shrink,
    Transition,
    resolve,
)
from tests.examples import examples

MB = 1 << 20
BUDGET = 100 * MB


def breathed(states: list[ServerState], share: float) -> list[ServerState]:
    """Each holds its limit by this share more; one without a limit what it held."""
    return [
        replace(
            state,
            held_bytes=round(state.held_bytes + share * (state.maxmemory_bytes - state.held_bytes))
            if math.isfinite(state.maxmemory_bytes)
            else state.held_bytes,
        )
        for state in states
    ]


@dataclass
class Model:
    """Servers that do what they are told, and free memory in their own time."""

    states: list[ServerState]

    def total(self) -> float:
        return sum(state.maxmemory_bytes for state in self.states)

    def claims(self) -> float:
        """Written out again, apart from the code under test. One without a limit that can be given
        none counts as planned."""
        return sum(
            state.held_bytes
            if state.held_bytes > 1.01 * state.maxmemory_bytes + MB
            else state.target_bytes
            if state.maxmemory_bytes == math.inf and state.reachable and not state.moves
            else state.maxmemory_bytes
            for state in self.states
        )

    def apply(self, transition: Transition) -> None:
        place = [state.name for state in self.states].index(transition.name)
        state = self.states[place]
        assert state.reachable
        assert not state.refuses
        assert state.evicts or isinstance(transition, LeaveShrinkMode)
        match transition:
            case EnterShrinkMode():
                state = replace(state, in_shrink_mode=True)
            case LeaveShrinkMode():
                state = replace(state, in_shrink_mode=False)
            case Shrink(from_bytes=before, to_bytes=to_bytes):
                assert state.in_shrink_mode
                assert before == state.maxmemory_bytes > to_bytes
                state = replace(state, maxmemory_bytes=to_bytes)
            case Grow(from_bytes=before, to_bytes=to_bytes):
                assert before == state.maxmemory_bytes < to_bytes <= state.target_bytes
                state = replace(state, maxmemory_bytes=to_bytes)
        self.states[place] = state

    def breathe(self, share: float) -> None:
        """Every server moves its memory towards its limit by this share of the way."""
        self.states = breathed(self.states, share)

    def aim(self, shares: list[int]) -> None:
        """New targets, in these proportions."""
        total = sum(shares)
        self.states = [
            replace(state, target_bytes=max(1, BUDGET * share // total))
            for state, share in zip(self.states, shares, strict=True)
        ]
        excess = sum(state.target_bytes for state in self.states) - BUDGET
        assert excess <= 0


sizes = st.one_of(st.integers(1, 2 * BUDGET), st.just(math.inf))
servers = st.integers(2, 5)
mostly = st.sampled_from([True, True, True, False])


@st.composite
def models(draw: st.DrawFn) -> Model:
    count = draw(servers)
    model = Model(
        [
            ServerState(
                name=f"s{place}",
                maxmemory_bytes=draw(sizes),
                held_bytes=draw(st.integers(0, 2 * BUDGET)),
                target_bytes=1,
                reachable=draw(mostly),
                in_shrink_mode=draw(st.booleans()),
                evicts=draw(mostly),
                refuses=not draw(mostly),
                stuck=not draw(mostly),
                least_bytes=draw(st.integers(0, BUDGET)),
            )
            for place in range(count)
        ]
    )
    model.aim(draw(_shares(count)))
    return model


def _shares(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 50), min_size=count, max_size=count)


def _apply_watched(model: Model, transition: Transition) -> None:
    before, claimed = model.total(), model.claims()
    model.apply(transition)
    after = model.total()
    assert after <= max(BUDGET, before)
    if before > BUDGET:
        assert after <= before
    if isinstance(transition, Grow):
        (least,) = (one.least_bytes for one in model.states if one.name == transition.name)
        # Who would refuse writes does not wait for what others hold.
        if transition.to_bytes > least:
            assert model.claims() <= max(BUDGET, claimed)


@settings(max_examples=examples(400))
@given(model=models(), data=st.data())
def test_every_interrupted_prefix_keeps_the_sum_within_the_budget(
    model: Model, data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 6), "interruptions")):
        transitions = list(resolve(model.states, BUDGET))
        prefix = data.draw(st.integers(0, len(transitions)), "carried out")
        for transition in transitions[:prefix]:
            _apply_watched(model, transition)
        model.breathe(data.draw(st.floats(0, 1), "freed"))
        if data.draw(st.booleans(), "new plan"):
            model.aim(data.draw(_shares(len(model.states))))
        place = data.draw(st.integers(0, len(model.states) - 1))
        # The one that came to grief, or recovered, or was given another policy.
        change = data.draw(st.sampled_from(["reachable", "evicts", "refuses", "stuck"]))
        model.states[place] = replace(model.states[place], **{change: data.draw(st.booleans())})


@settings(max_examples=examples(200))
@given(model=models(), share=st.floats(0.3, 1))
def test_it_arrives_once_everybody_answers_and_frees_memory(model: Model, share: float) -> None:
    _revive(model)
    _carry_out_until_nothing_moves(model, share)
    assert [state.maxmemory_bytes for state in model.states] == [
        state.target_bytes for state in model.states
    ]
    assert not any(state.in_shrink_mode for state in model.states)


def _revive(model: Model) -> None:
    model.states = [
        replace(state, reachable=True, evicts=True, refuses=False, stuck=False)
        for state in model.states
    ]


def _carry_out_until_nothing_moves(model: Model, share: float) -> None:
    for _ in range(200):
        transitions = list(resolve(model.states, BUDGET))
        if not transitions and not any(state.is_freeing for state in model.states):
            break
        for transition in transitions:
            _apply_watched(model, transition)
        model.breathe(share)


@settings(max_examples=examples(200))
@given(model=models(), share=st.floats(0.3, 1), data=st.data())
def test_those_that_can_move_arrive_beside_some_that_cannot(
    model: Model, share: float, data: st.DataObject
) -> None:
    """All that shrink arrive; those that grow share what is free, or miss a last little."""
    _revive(model)
    why_not = st.sampled_from([{"reachable": False}, {"evicts": False}, {"refuses": True}])
    places = st.integers(0, len(model.states) - 1)
    fixed = data.draw(st.dictionaries(places, why_not), "fixed")
    for place, why in fixed.items():
        model.states[place] = replace(model.states[place], **why)
    before = list(model.states)
    _carry_out_until_nothing_moves(model, share)
    missing = 0.0
    for place, (state, was) in enumerate(zip(model.states, before, strict=True)):
        if place in fixed:
            assert state.maxmemory_bytes == was.maxmemory_bytes
            continue
        assert state.maxmemory_bytes <= state.target_bytes
        missing += state.target_bytes - state.maxmemory_bytes
        if was.maxmemory_bytes >= was.target_bytes:
            assert state.maxmemory_bytes == state.target_bytes
            assert not state.in_shrink_mode
    if missing:
        assert BUDGET - model.claims() <= 0.02 * BUDGET + len(before)


def test_shrinks_come_first_and_growth_waits_for_memory_that_is_still_held() -> None:
    donor = ServerState("donor", 60 * MB, 60 * MB, 20 * MB)
    taker = ServerState("taker", 40 * MB, 40 * MB, 80 * MB)
    assert list(resolve([taker, donor], BUDGET)) == [
        EnterShrinkMode("donor"),
        Shrink("donor", 60 * MB, 20 * MB),
    ]
    half = replace(donor, maxmemory_bytes=20 * MB, held_bytes=40 * MB, in_shrink_mode=True)
    assert list(resolve([taker, half], BUDGET)) == [Grow("taker", 40 * MB, 60 * MB)]
    done = replace(half, held_bytes=20 * MB)
    assert list(resolve([taker, done], BUDGET)) == [
        LeaveShrinkMode("donor"),
        Grow("taker", 40 * MB, 80 * MB),
    ]


@pytest.mark.parametrize(
    ("has_bytes", "most_counted_bytes", "grows"),
    [(60 * MB, None, 40), (10**12, 24 * MB, 76), (math.inf, None, None)],
    ids=["with what it has", "with what others make room for", "without a limit"],
)
def test_a_server_that_does_not_answer_is_left_alone_and_keeps_its_claim(
    has_bytes: float, most_counted_bytes: int | None, grows: int | None
) -> None:
    more = {} if most_counted_bytes is None else {"most_counted_bytes": most_counted_bytes}
    held_bytes = 60 * MB if has_bytes == 60 * MB else 0
    down = ServerState("down", has_bytes, held_bytes, 20 * MB, reachable=False, **more)
    taker = ServerState("taker", 30 * MB, 30 * MB, 80 * MB)
    told = [] if grows is None else [Grow("taker", 30 * MB, grows * MB)]
    assert list(resolve([down, taker], BUDGET)) == told


def test_one_that_refuses_is_asked_nothing_and_keeps_its_claim() -> None:
    refuses = ServerState("refuses", 60 * MB, 60 * MB, 20 * MB, refuses=True)
    other = ServerState("other", 50 * MB, 50 * MB, 30 * MB)
    taker = ServerState("taker", 5 * MB, 5 * MB, 50 * MB)
    assert list(resolve([refuses, other, taker], BUDGET)) == [
        EnterShrinkMode("other"),
        Shrink("other", 50 * MB, 30 * MB),
    ]
    shrunk = replace(other, maxmemory_bytes=30 * MB, held_bytes=30 * MB)
    assert list(resolve([refuses, shrunk, taker], BUDGET)) == [Grow("taker", 5 * MB, 10 * MB)]


def test_one_that_does_not_evict_keeps_its_size_and_one_that_is_stuck_its_own_settings() -> None:
    fixed = ServerState("fixed", 60 * MB, 60 * MB, 20 * MB, in_shrink_mode=True, evicts=False)
    stuck = ServerState("stuck", 10 * MB, 30 * MB, 10 * MB, in_shrink_mode=True, stuck=True)
    taker = ServerState("taker", 5 * MB, 5 * MB, 50 * MB)
    assert list(resolve([fixed, stuck, taker], BUDGET)) == [
        LeaveShrinkMode("fixed"),
        LeaveShrinkMode("stuck"),
        Grow("taker", 5 * MB, 10 * MB),
    ]


def test_what_one_holds_and_never_frees_is_room_for_its_own_growth() -> None:
    """A replica that holds more than its limit: it would wait for itself, and others for it."""
    other = ServerState("other", 40 * MB, 40 * MB, 40 * MB)
    for held, donor, grown in ((50, 10, 50), (50, 30, 30), (70, 10, 50), (15, 10, 50)):
        replica = ServerState("replica", 10 * MB, held * MB, 50 * MB, stuck=True)
        gives = ServerState("donor", donor * MB, donor * MB, 10 * MB, floor_bytes=donor * MB)
        told = [one for one in resolve([replica, gives, other], BUDGET) if isinstance(one, Grow)]
        assert told == [Grow("replica", 10 * MB, grown * MB)], held


@pytest.mark.parametrize("stuck", [True, False])
def test_who_would_refuse_writes_does_not_wait_for_what_another_one_holds(stuck: bool) -> None:
    held = ServerState("held", 60 * MB, 90 * MB, 60 * MB, in_shrink_mode=True, stuck=stuck)
    for least, grown in ((0, None), (5, None), (20, 20), (50, 40)):
        needs = ServerState("needs", 10 * MB, 10 * MB, 40 * MB, least_bytes=least * MB)
        told = [one for one in resolve([held, needs], BUDGET) if isinstance(one, Grow)]
        assert told == ([Grow("needs", 10 * MB, grown * MB)] if grown else []), least
    # Only while the limits stay within the budget.
    other = ServerState("other", 25 * MB, 0, 0, refuses=True)
    needs = replace(needs, least_bytes=40 * MB)
    told = [one for one in resolve([held, needs, other], BUDGET) if isinstance(one, Grow)]
    assert told == [Grow("needs", 10 * MB, 15 * MB)]


def test_targets_above_the_budget_are_refused() -> None:
    with pytest.raises(ValueError, match="exceed the budget"):
        list(resolve([ServerState("a", 1, 1, BUDGET + 1)], BUDGET))
