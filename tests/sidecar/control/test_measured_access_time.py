"""The node's mean access time, as its servers counted hits and misses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.control.measured_access_time import access_seconds_of, counted_reads
from sidecar.control.server_status import _has_run_since
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import ServerObservation
from tests.sidecar.monitored_load import STATS

CURVE = MissRatioCurve(np.array([1.0]), np.array([0.5]))


def observed(
    name: str,
    rate: float,
    miss_ratio: float | None,
    *,
    weight: float = 1.0,
    backend: float = 0.02,
) -> ServerObservation:
    return ServerObservation(name, 1, 1, weight, rate, 0.001, backend, CURVE, miss_ratio=miss_ratio)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50), st.integers(1, 3)), min_size=1))
def test_it_is_the_mean_over_all_reads(counted: list[tuple[int, int, int]]) -> None:
    """The twin takes each read by itself."""
    servers, waits = [], []
    for place, (hits, misses, weight) in enumerate(counted):
        reads = hits + misses
        servers.append(observed(str(place), reads, misses / reads, weight=weight))
        waits += [0.001] * hits * weight + [0.02] * misses * weight
    assert access_seconds_of(counted_reads(servers), servers) == pytest.approx(np.mean(waits))


def test_what_is_not_known_is_not_guessed() -> None:
    known, idle = observed("a", 10.0, 0.5), observed("b", 0.0, None, backend=0.0)
    counted = counted_reads([known, idle])
    assert access_seconds_of(counted, [known, idle]) == pytest.approx(0.0105)
    # At the prices of now.
    assert access_seconds_of(counted, [observed("a", 99.0, 0.0, backend=0.04)]) == pytest.approx(
        0.0205
    )
    assert counted_reads([known, observed("b", 10.0, None)]) == {}
    assert access_seconds_of(counted, [observed("a", 10.0, 0.5, backend=0.0)]) is None
    assert access_seconds_of(counted, [idle]) is None
    # Of whom nobody knows what a miss costs is left out, before as now.
    jobs = observed("jobs", 99.0, 0.9, backend=0.0)
    counted = counted_reads([known, jobs])
    assert access_seconds_of(counted, [known, jobs]) == pytest.approx(0.0105)
    assert access_seconds_of({}, [known]) is None


def test_what_a_process_hit_that_is_gone_is_not_told_of_the_next_one() -> None:
    """A second after a crash, a cache that hit 7 % was said to hit 65 %."""
    cycle: Any = SimpleNamespace(last_observation=SimpleNamespace(made_at_seconds=1000.0))
    none: Any = SimpleNamespace(last_observation=None)
    reading = replace(STATS, at_seconds=1060.0, uptime_seconds=3600)
    assert _has_run_since(reading, cycle)
    assert not _has_run_since(replace(reading, uptime_seconds=2), cycle)
    assert not _has_run_since(None, cycle)
    assert not _has_run_since(reading, none)
