"""A server that never comes to rest does not hold up the plans of all."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from sidecar.config.sampling import SamplingConfig
from sidecar.observing.observation_cycle import (
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
        f"s{place}": SimpleNamespace(  # type: ignore[misc]
            samples_since_observation=count, last_batch=None
        )
        for place, count in enumerate(samples)
    }
    assert cycle._is_due(age_seconds) == due


@pytest.mark.parametrize(("is_automatic", "samples"), [(True, 50_000), (False, 500_000)])
def test_samples_of_a_rate_that_found_itself_count_as_at_the_default_one(
    is_automatic: bool, samples: int
) -> None:
    """With ten times as many keys, ten times as many plans would be paid for."""
    cycle = object.__new__(ObservationCycle)
    config = SimpleNamespace(
        cycle=SimpleNamespace(samples=1_000_000),
        sampling=SamplingConfig("", is_automatic),
    )
    cycle.config = config  # type: ignore[assignment]
    batch = SimpleNamespace(modulus=1000, threshold=100)
    monitor = SimpleNamespace(samples_since_observation=500_000, last_batch=batch)
    cycle._monitors = {"s0": monitor}  # type: ignore[dict-item]
    assert cycle.samples == samples
    batch.threshold = 1  # fewer than at the default rate are as many as they are
    assert cycle.samples == 500_000


def test_after_resume_one_comes_with_the_next_step() -> None:
    cycle = object.__new__(ObservationCycle)
    with_times(cycle, 100.0, "apply", is_first=False)
    cycle._planning_basis = SimpleNamespace(is_early=False)  # type: ignore[assignment]
    cycle._monitors = {"s0": SimpleNamespace(samples_since_observation=0, last_batch=None)}  # type: ignore[dict-item]
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
    cycle._monitors = {"s0": SimpleNamespace(samples_since_observation=0, last_batch=None)}  # type: ignore[dict-item]
    assert cycle._is_due(expected_seconds)
    assert not cycle._is_due(expected_seconds - 1)
    cycle._observed_at = time.monotonic()
    assert cycle.latest_at_seconds - time.time() == pytest.approx(expected_seconds, abs=50)
