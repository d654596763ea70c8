"""What a server served in a window, also where its counters began anew in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.served_reads import ServedReads, served_between
from sidecar.servers.server_reading import ServerReading
from tests.sidecar.test_lifetimes import TtlCache, stats_of

READING = stats_of(TtlCache(100, 60.0), 100, 0.0)
COUNTS = st.integers(0, 10**9)


def counted(hits: int, misses: int, at_seconds: float = 0.0) -> ServerReading:
    return replace(READING, keyspace_hits=hits, keyspace_misses=misses, at_seconds=at_seconds)


def test_a_load_that_ends_does_not_look_like_a_reset() -> None:
    """The last samples of the busy window come in the quiet one."""
    served = served_between(counted(60_000, 20_000), counted(60_039, 20_000, 1.0), 539.0)
    assert served == ServedReads(39, 0)


@pytest.mark.parametrize(
    ("hits", "misses", "sampled"), [(3_000, 1_000, 10_000.0), (70_000, 10_000, 200_000.0)]
)
def test_counters_that_began_anew_are_scaled_to_what_was_sampled(
    hits: int, misses: int, sampled: float
) -> None:
    """Also where they have come further since than they were before."""
    served = served_between(counted(60_000, 5_000), counted(hits, misses, 3600.0), sampled)
    assert served.reads == pytest.approx(sampled)
    assert served.misses / served.reads == pytest.approx(misses / (hits + misses), abs=1e-4)


def test_little_since_a_reset_tells_nothing_of_all_that_was_sampled() -> None:
    assert served_between(counted(60_000, 5_000), counted(0, 3, 3600.0), 40_000.0).reads == 0
    assert served_between(counted(60_000, 5_000), counted(0, 0, 3600.0), 40_000.0).reads == 0


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0, 2))
def test_without_a_reset_it_is_what_was_counted(
    hits: int, misses: int, more_hits: int, more_misses: int, ratio: float
) -> None:
    """However much was sampled, while it is less than what was counted before."""
    previous = counted(hits, misses)
    reading = counted(hits + more_hits, misses + more_misses, 60.0)
    sampled = min(ratio * (more_hits + more_misses), 0.89 * (hits + misses))
    assert served_between(previous, reading, sampled) == ServedReads(more_hits, more_misses)
