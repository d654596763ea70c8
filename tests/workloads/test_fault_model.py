"""A node of models under faults: nothing is broken whatever happens, and what is would be found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sidecar.servers import apply_transitions, server_watch
from sidecar.servers.sizes import transitions
from sidecar.servers.sizes.transitions import ServerState
from workloads.experiment.faults.model import model_stage
from workloads.experiment.faults.model.model import KINDS, maker, play_on_model, run_model, shortest
from workloads.experiment.faults.model.model_server import MIB
from workloads.experiment.faults.model.model_stage import BUDGET_BYTES, ModelStage
from workloads.experiment.faults.model.simulated_time import SimulatedClock, simulated_time
from workloads.experiment.faults.stage.script import POLICIES, dumps, loads
from workloads.quiet_log import quiet_log

places = st.integers(0, 2)
sizes = st.sampled_from([0, 1, 4, 8, 16, 24, 48, 96])
seconds = st.sampled_from([0.01, 0.1, 0.3, 0.7, 1.5, 6.0])


class FaultyNode(RuleBasedStateMachine):
    """All that a ``Stage`` can do to three servers and the real actuator."""

    def __init__(self) -> None:
        super().__init__()
        self._time: Any = simulated_time()
        self._silence: Any = quiet_log()
        self._silence.__enter__()
        clock: SimulatedClock = self._time.__enter__()
        self._clock = clock

    @initialize(gradual=st.booleans())
    def begin(self, gradual: bool) -> None:
        kind = "handover" if gradual else "actuator"
        self.stage = ModelStage(self._clock, 3, maker(kind, self._clock))

    @rule(shares=st.lists(st.integers(1, 9), min_size=3, max_size=3))
    def plan(self, shares: list[int]) -> None:
        self.stage.plan(*shares)

    @rule(place=places)
    def kill_server(self, place: int) -> None:
        self.stage.kill_server(place)

    @rule(place=places, size=sizes)
    def start_server(self, place: int, size: int) -> None:
        self.stage.start_server(place, size)

    @rule(place=places)
    def hang_server(self, place: int) -> None:
        self.stage.hang_server(place)

    @rule(place=places)
    def wake_server(self, place: int) -> None:
        self.stage.wake_server(place)

    @rule()
    def kill_sidecar(self) -> None:
        self.stage.kill_sidecar()

    @rule()
    def start_sidecar(self) -> None:
        self.stage.start_sidecar()

    @rule()
    def terminate_sidecar(self) -> None:
        self.stage.terminate_sidecar()

    @rule(wakes=st.booleans())
    def hang_or_wake_sidecar(self, wakes: bool) -> None:
        if wakes:
            self.stage.wake_sidecar()
        else:
            self.stage.hang_sidecar()

    @rule(place=places, size=sizes)
    def set_by_hand(self, place: int, size: int) -> None:
        self.stage.set_by_hand(place, size)

    @rule(place=places, policy=st.sampled_from(POLICIES))
    def policy(self, place: int, policy: str) -> None:
        self.stage.policy(place, policy)

    @rule(place=places, refuses=st.booleans())
    def refuse_or_accept(self, place: int, refuses: bool) -> None:
        if refuses:
            self.stage.refuse(place)
        else:
            self.stage.accept(place)

    @rule(place=places, how=st.sampled_from(["drop_replies", "pass_replies"]))
    def drop_or_pass(self, place: int, how: str) -> None:
        getattr(self.stage, how)(place)

    @rule(place=places, late=seconds)
    def delay(self, place: int, late: float) -> None:
        self.stage.delay(place, late)

    @rule(place=places, mebibytes=st.sampled_from([0, 2, 6, 12]))
    def pin(self, place: int, mebibytes: int) -> None:
        self.stage.pin(place, mebibytes)

    @rule(time=seconds)
    def wait(self, time: float) -> None:
        self.stage.wait(time)

    @invariant()
    def nothing_is_broken(self) -> None:
        if hasattr(self, "stage"):
            assert not self.stage.rules.broken

    def teardown(self) -> None:
        try:
            if hasattr(self, "stage"):
                self.stage.settle()
                verdict = self.stage.verdict()
                assert verdict.ok, verdict.words
                assert self.stage.rules.total_bytes() <= BUDGET_BYTES
        finally:
            self._time.__exit__(None, None, None)
            self._silence.__exit__(None, None, None)


FaultyNode.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_a_node_under_faults = FaultyNode.TestCase


@pytest.fixture
def clock() -> Iterator[SimulatedClock]:
    with quiet_log(), simulated_time() as clock:
        yield clock


@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts_break_nothing(kind: str) -> None:
    count = {"resolver": 1500, "actuator": 150, "handover": 40}[kind]
    run = run_model(count, 1, kind)
    assert not run.failures, "\n".join(str(failure) for failure in run.failures)
    assert run.scripts == count


def test_a_shrink_is_not_sent_to_who_was_given_less_meanwhile(clock: SimulatedClock) -> None:
    """Found by the model: it would have been a growth, beside a server without a limit."""
    script = loads("plan 3 1\ndelay 0 0.7\nset_by_hand 1 0\nplan 5 2\nset_by_hand 0 8\n")
    verdict = play_on_model(script, clock, 2, "actuator")
    assert verdict.ok, verdict.words


@pytest.mark.parametrize("hangs", range(3, 7))
def test_a_policy_that_changes_after_a_late_answer_is_seen_by_the_next(
    clock: SimulatedClock, hangs: int
) -> None:
    """Who was slow to answer is shrunk by what it just said: asked again each time, one that is
    always slow would never be. So the model must not call it broken, and nothing stays so."""
    script = loads("hang_server 0\n" * hangs + "wake_server 0\nplan 1 1 2\npolicy 0 noeviction\n")
    verdict = play_on_model(script, clock, 3, "actuator")
    assert verdict.ok, verdict.words


def _claims_nothing_out_of_reach(state: ServerState) -> float:
    held = state.held_bytes if state.is_freeing else state.maxmemory_bytes
    return held if state.reachable else 0


# What is broken in the product, and what is then said.
BREAKS = {
    "growth into what a server has that is out of reach": (
        transitions.ServerState,
        "counted_bytes",
        property(_claims_nothing_out_of_reach),
        "beside",
    ),
    "growth into what is still held": (transitions.ServerState, "is_freeing", False, "beside"),
    "a shrink without another look at the policy": (
        server_watch.ServerWatch,
        "can_shrink_now",
        lambda *_: True,
        "does not evict",
    ),
    "settings of a shrink that stay": (
        apply_transitions,
        "LeaveShrinkMode",
        type("Never", (), {}),
        "left in a shrink",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found_and_told_as_a_short_script(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, attribute, broken, words = BREAKS[name]
    monkeypatch.setattr(owner, attribute, broken)
    monkeypatch.setattr(model_stage, "SETTLE_SECONDS", 60.0)  # enough, with what they draw
    (failure,) = run_model(2000, 1, "actuator", most_failures=1).failures
    assert words in failure.words
    script = loads(failure.script)
    assert dumps(script) == failure.script
    assert len(script) <= 8
    with quiet_log(), simulated_time() as clock:
        assert not play_on_model(script, clock, failure.servers, failure.kind).ok
        monkeypatch.undo()
        assert play_on_model(script, clock, failure.servers, failure.kind).ok


def test_a_lost_reply_to_a_growth_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most that may be in force counts from before a growth is sent."""
    send = server_watch.ServerWatch.set_maxmemory

    def forgetful(watch: server_watch.ServerWatch, size_bytes: int) -> None:
        before = watch._at_most_bytes
        try:
            send(watch, size_bytes)
        except server_watch.ServerDownError:
            watch._at_most_bytes = before
            raise

    monkeypatch.setattr(server_watch.ServerWatch, "set_maxmemory", forgetful)
    script = loads("plan 9 6 7\ndrop_replies 0\nplan 6 6 4\n")
    with quiet_log(), simulated_time() as clock:
        assert "beside" in play_on_model(script, clock, 3, "actuator").words


def test_a_server_that_starts_with_more_is_cut_at_once(clock: SimulatedClock) -> None:
    stage = ModelStage(clock, 3, maker("actuator", clock))
    stage.plan(1, 1, 1)
    stage.wait(3)
    stage.kill_server(1)
    stage.wait(3)
    stage.start_server(1, 96)
    assert stage.rules.total_bytes() > BUDGET_BYTES
    stage.settle()
    verdict = stage.verdict()
    assert verdict.ok
    assert 0 < verdict.longest_above_seconds < 1


def test_what_a_hanging_server_was_sent_counts_and_comes_late(clock: SimulatedClock) -> None:
    stage = ModelStage(clock, 2, maker("actuator", clock))
    stage.plan(1, 3)
    stage.hang_server(0)  # in the step that shrinks it
    before = stage.servers[0].maxmemory_bytes
    stage.wait(2)
    assert stage.servers[1].maxmemory_bytes + before <= BUDGET_BYTES
    stage.settle()
    assert stage.verdict().ok
    assert stage.servers[1].maxmemory_bytes == 2 * MIB + 44 * MIB * 3 // 4


def test_the_shortest_script_that_fails_is_found() -> None:
    steps = loads("".join(f"wait {number}\n" for number in range(20)))
    short = shortest(steps, lambda some: {3, 17} <= {step.value for step in some})
    assert [step.value for step in short] == [3, 17]
