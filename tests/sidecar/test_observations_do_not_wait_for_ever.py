"""A server that never comes to rest does not hold up the plans of all."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from sidecar.observation_cycle import (
    FIRST_PLAN_SECONDS,
    LONGEST_UNREST_SECONDS,
    ObservationCycle,
)
from sidecar.state.control_state import ControlState


def with_times(
    cycle: ObservationCycle, maximum_age_seconds: float, mode: str, *, is_first: bool
) -> None:
    times = SimpleNamespace(maximum_age_seconds=maximum_age_seconds, samples=10)
    cycle.config = SimpleNamespace(cycle=times, mode=mode)  # type: ignore[assignment]
    cycle._store = SimpleNamespace(now=SimpleNamespace(control=ControlState()))  # type: ignore[assignment]
    cycle._held_then = frozenset()
    cycle.last_observation = None if is_first else object()  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("settled", "waiting", "overdue_seconds", "goes_on"),
    [
        (True, False, 0.0, True),
        (False, True, 0.0, True),
        (False, False, 0.0, False),
        (False, False, LONGEST_UNREST_SECONDS - 1, False),
        (False, False, LONGEST_UNREST_SECONDS, True),
    ],
)
def test_sizes_on_their_way_are_waited_for_so_long(
    settled: bool, waiting: bool, overdue_seconds: float, goes_on: bool
) -> None:
    cycle = object.__new__(ObservationCycle)
    pace = SimpleNamespace(is_waiting=waiting)
    cycle._actuator = SimpleNamespace(settled=settled, pace=pace)  # type: ignore[assignment]
    with_times(cycle, 100.0, "apply", is_first=False)
    assert cycle._is_at_rest(100.0 + overdue_seconds) == goes_on


@pytest.mark.parametrize(
    ("samples", "early", "mode", "age_seconds", "due"),
    [
        ((4, 3, 3), False, "apply", 10.0, True),
        ((10**9, 4, 0), False, "apply", 99.0, False),
        ((10**9, 10**9, 10**9), True, "apply", 8.0, False),
        ((0, 0, 0), True, "apply", 9.0, True),
        ((0, 0, 0), True, "recommend", 99.0, False),
        ((0, 0, 0), False, "apply", 100.0, True),
    ],
)
def test_no_server_alone_hurries_the_cycles_of_all(
    samples: tuple[int, ...], early: bool, mode: str, age_seconds: float, due: bool
) -> None:
    cycle = object.__new__(ObservationCycle)
    with_times(cycle, 100.0, mode, is_first=False)
    cycle._planning_basis = SimpleNamespace(is_early=early)  # type: ignore[assignment]
    cycle._monitors = {
        f"s{place}": SimpleNamespace(samples_since_observation=count)  # type: ignore[misc]
        for place, count in enumerate(samples)
    }
    assert cycle._is_due(age_seconds) == due


def test_after_resume_one_comes_with_the_next_step() -> None:
    cycle = object.__new__(ObservationCycle)
    with_times(cycle, 100.0, "apply", is_first=False)
    cycle._planning_basis = SimpleNamespace(is_early=False)  # type: ignore[assignment]
    cycle._monitors = {"s0": SimpleNamespace(samples_since_observation=0)}  # type: ignore[dict-item]
    assert not cycle._is_due(99.0)
    cycle._held_then = frozenset(["s0"])  # and is not any more
    assert not cycle._is_due(8.0)
    assert cycle._is_due(9.0)


@pytest.mark.parametrize(
    ("maximum_age_seconds", "mode", "is_first", "expected_seconds"),
    [
        (3600.0, "recommend", True, FIRST_PLAN_SECONDS),
        (3600.0, "recommend", False, 3600.0),
        (3600.0, "apply", True, 3600.0),
        (60.0, "recommend", True, 60.0),
    ],
)
def test_the_first_plan_comes_soon_if_it_is_only_recommended(
    maximum_age_seconds: float, mode: str, is_first: bool, expected_seconds: float
) -> None:
    cycle = object.__new__(ObservationCycle)
    with_times(cycle, maximum_age_seconds, mode, is_first=is_first)
    cycle._planning_basis = SimpleNamespace(is_early=False)  # type: ignore[assignment]
    cycle._monitors = {"s0": SimpleNamespace(samples_since_observation=0)}  # type: ignore[dict-item]
    assert cycle._is_due(expected_seconds)
    assert not cycle._is_due(expected_seconds - 1)
    cycle._observed_at = time.monotonic()
    assert cycle.latest_at_seconds - time.time() == pytest.approx(expected_seconds, abs=50)
