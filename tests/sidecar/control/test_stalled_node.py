"""A late observation, a server that has still to shrink, and one that stays without a limit."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sidecar.control.gain_by_curves import RecommendedGain, access_seconds
from sidecar.control.status_document import MOST_CYCLES, standstill
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.gain_since_installation import GainSinceInstallation
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import ServerObservation
from tests.sidecar.counted_reads import MEBIBYTE, at_depth

LONGEST_SECONDS = 300.0
SERVER = ServerObservation(
    name="a",
    maxmemory_bytes=8 * MEBIBYTE,
    minimum_bytes=MEBIBYTE,
    weight=1.0,
    request_rate_per_second=1.0,
    cache_latency_seconds=200e-6,
    backend_latency_seconds=0.02,
    curve=MissRatioCurve(np.array([0.0]), np.array([0.5])),
)


def _told(
    late_seconds: float, cycles: int, size: int, looks_on: bool = False, evicts: bool = True
) -> list[str]:
    cycle: Any = SimpleNamespace(
        latest_at_seconds=time.time() - late_seconds,
        config=SimpleNamespace(cycle=SimpleNamespace(maximum_age_seconds=LONGEST_SECONDS)),
        shrinking_since={"a": time.monotonic() - cycles * LONGEST_SECONDS} if cycles else {},
    )
    state = ServerState("a", size * MEBIBYTE, 12 * MEBIBYTE, 2 * MEBIBYTE, evicts=evicts)
    now = SimpleNamespace(sizes_bytes={"a": 8 * MEBIBYTE})  # on the way to less
    actuator: Any = SimpleNamespace(looks_on=looks_on, latest=[state], intermediate_sizes=now)
    return standstill(cycle, actuator)


def test_an_observation_that_is_late_by_a_cycle_is_told() -> None:
    assert _told(-10, 0, 8) == _told(LONGEST_SECONDS - 5, 0, 8) == []
    (said,) = _told(LONGEST_SECONDS + 5, 0, 8)
    assert "more than a whole cycle" in said


def test_a_server_that_has_still_to_shrink_after_three_cycles_is_told() -> None:
    assert _told(0, MOST_CYCLES - 1, 12) == _told(0, MOST_CYCLES, 8) == []
    assert _told(0, MOST_CYCLES, 12, looks_on=True) == []
    assert _told(0, MOST_CYCLES, 12, evicts=False) == []  # it came back with more, and keeps that
    (said,) = _told(0, MOST_CYCLES, 12)
    assert "a has been on its way to 8 MiB for " in said
    assert "and has 12 MiB" in said


@pytest.mark.parametrize(("recommended", "ratio"), [(0, 0.0), (8, 0.0), (2, -1.0)])
def test_a_server_that_is_to_stay_without_a_limit_costs_nothing(
    recommended: int, ratio: float
) -> None:
    """A plan has 0 for it, which is no size."""
    gain = RecommendedGain(0.0)
    gain.recommend([SERVER], {"a": recommended * MEBIBYTE}, 0.0)
    gain.step({"a": at_depth(4.0 * MEBIBYTE)}, {"a": 8 * MEBIBYTE}, 10.0)
    assert gain.ratio is not None
    assert gain.ratio == 0 if ratio == 0 else gain.ratio < -10


def test_reads_of_a_time_when_a_miss_counted_more_are_weighed_as_today() -> None:
    counted = {"a": (1000.0, 100.0, 200.0), "gone": (1.0, 1.0, 1.0)}
    slow, quick = (replace(SERVER, backend_latency_seconds=one) for one in (2.0, 0.02))
    assert access_seconds([slow], counted) == pytest.approx((200.18, 400.16))
    assert access_seconds([quick], counted) == pytest.approx((2.18, 4.16))


def test_what_is_pinned_since_is_no_gain() -> None:
    """Others would have made that room with the sizes that were found, too."""
    since = GainSinceInstallation(0.0, pinned_bytes={"a": 5.0, "b": 0.0})
    installed, in_force = {"a": 20, "b": 20, "c": 20}, {"a": 60, "b": 25, "c": 9}
    pinned = {"a": 35.0, "b": 30.0, "c": 1.0, "d": 1.0}
    assert since.found_bytes(installed, in_force, pinned) == {"a": 50, "b": 25, "c": 20}
    assert since.found_bytes(installed, {}, {}) == installed
