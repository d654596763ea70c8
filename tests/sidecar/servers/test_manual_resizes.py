"""Who resizes again and again is told of now and then, and each server's last size at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.servers.manual_resizes import (
    CONTEST_SECONDS,
    GATHER_SECONDS,
    TOLD_AT_ONCE,
    ManualResizes,
)
from sidecar.servers.server_contact import NotSentError
from sidecar.state.control_state import Pause
from sidecar.state.state_store import StateStore
from tests.sidecar.fixtures import MakeNode

MB = 1 << 20


class Told:
    """Resizes of two servers, what they told, and their clock."""

    def __init__(self, *, holds: bool = True) -> None:
        self.seconds = 0.0
        self.told: list[tuple[str, str]] = []
        self.store = StateStore(None)
        self.hands = ManualResizes(
            self.store,
            lambda: 100 * MB,
            lambda: {"a": MB, "b": MB},
            holds=holds,
            tell=lambda name, words: self.told.append((name, words)),
            now=lambda: self.seconds,
        )


def test_few_changes_are_told_at_once() -> None:
    node = Told()
    for size in (5, 6, 7):
        assert node.hands.note("a", size * MB, {})
    assert [words.split(" by hand")[0][-5:] for _, words in node.told] == [
        "5 MiB",
        "6 MiB",
        "7 MiB",
    ]
    node.seconds = 10 * GATHER_SECONDS
    node.hands.tell_gathered()
    assert len(node.told) == 3


def test_many_become_one_in_a_minute_and_the_last_is_not_lost() -> None:
    for holds in (True, False):
        node = Told(holds=holds)
        for number in range(600):  # an hour
            node.seconds = 6.0 * number
            assert node.hands.note("a", (5 + number % 7) * MB, {}) is holds
            node.hands.note("b", 9 * MB, {})
            node.hands.tell_gathered()
        node.hands.tell_gathered(all_of_them=True)
        assert len(node.told) <= 2 * 60 * (TOLD_AT_ONCE + 1)
        last = [words for name, words in node.told if name == "a"][-1]
        assert f"to {5 + 599 % 7} MiB by hand" in last
        assert "more within a minute" in last
        assert ("a" in node.store.now.control.held) is holds


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=200))
def test_every_change_is_counted_once(changes: list[tuple[str, float]]) -> None:
    node = Told()
    for name, later in changes:
        node.seconds += later
        node.hands.note(name, 5 * MB, {})
        node.hands.tell_gathered()
    node.hands.tell_gathered(all_of_them=True)

    def count(words: str) -> int:
        first = words.split()[0]
        return {"somebody": 1, "once": 1}.get(first) or int(first)

    assert sum(count(words) for _, words in node.told) == len(changes)


def test_a_size_that_changes_all_the_time_does_not_stay() -> None:
    """Each that stays is noted in the state file: a hostile server made that 14 times a second."""
    node = Told()
    stays = [node.hands.note("a", (5 + place) * MB, {}) for place in range(12)]
    assert stays == [True] * 10 + [False] * 2
    assert "it changes too often to stay: it is put back now" in node.told[-1][1] or node.hands
    node.seconds = 10 * GATHER_SECONDS
    assert node.hands.note("a", 7 * MB, {})


def test_who_sets_what_is_put_back_again_is_a_problem_while_it_lasts() -> None:
    node = Told()
    assert not node.hands.note("a", 100 * MB, {})
    assert node.hands.contests() == []
    node.seconds = CONTEST_SECONDS - 1
    assert not node.hands.note("a", 0, {})
    assert node.told[-1][1].endswith("is put back now (2 times in a row)")
    (problem,) = node.hands.contests()
    assert "keeps setting maxmemory of a (2 times, the last to no limit)" in problem
    node.seconds += CONTEST_SECONDS + 1
    assert node.hands.contests() == []
    assert not node.hands.note("a", 100 * MB, {})
    assert node.told[-1][1].endswith("is put back now")


def test_in_a_pause_nothing_is_put_back_and_that_is_said() -> None:
    node = Told(holds=False)
    with node.store.update() as state:
        state.control = replace(state.control, pause=Pause("ana", 0.0))
    for _ in range(2):
        assert not node.hands.note("a", 5 * MB, {})
    assert node.told[-1][1].endswith("is put back when the pause is over (2 times in a row)")
    assert node.hands.contests() == []


def test_what_others_cannot_evict_is_left_to_them() -> None:
    hands = Told().hands
    assert not hands.note("a", 70 * MB, {}, {"a": 5 * MB, "b": 31 * MB})
    assert hands.note("a", 69 * MB, {}, {"a": 5 * MB, "b": 31 * MB})
    # Who does not evict keeps what it has.
    assert not hands.note("a", 69 * MB, {"b": 32 * MB})


def test_a_size_as_planned_is_nobodys_hand() -> None:
    """Who undoes a slip and orders ``resume`` at once is not held again."""
    node = Told()
    with node.store.update() as state:
        state.targets_bytes = {"a": 5 * MB, "b": 9 * MB}
    assert node.hands.note("a", 5 * MB, {})
    assert not node.told
    assert not node.store.now.control.held
    assert node.hands.note("a", 6 * MB, {})
    assert node.store.now.control.held["a"].bytes == 6 * MB


def test_a_growth_that_was_not_sent_makes_the_size_before_nobodys(make_node: MakeNode) -> None:
    """A server that was slow to take a setting is sent none for a second."""
    node = make_node("16mb", "16mb")
    node.settle(16, 16)
    watch = node.actuator._watches["s0"]
    watch.contact._sets_again_at = float("inf")
    with pytest.raises(NotSentError):
        watch.set_maxmemory(20 * MB)
    for _ in range(3):
        node.actuator.step()
    assert node.metrics.value("foreign_changes") == 0
    assert not watch.is_held
