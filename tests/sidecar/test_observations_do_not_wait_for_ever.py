"""A server that never comes to rest does not hold up the plans of all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sidecar.observation_cycle import LONGEST_UNREST_SECONDS, ObservationCycle


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
    times = SimpleNamespace(maximum_age_seconds=100.0, samples=10)
    cycle.config = SimpleNamespace(cycle=times)  # type: ignore[assignment]
    assert cycle._is_at_rest(100.0 + overdue_seconds) == goes_on
